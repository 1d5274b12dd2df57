"""What a data set's card on the hub says of its configurations: the files of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deeploop.errors import UserError

CARD = "README.md"
"""Its YAML block names the configurations, e.g. `sample-100BT`, with globs of their files."""
SPLIT = "train"


def configuration_patterns(card: Path, name: str, where: str) -> list[str]:
    """Return the globs of a configuration's training split.

    Args:
        card: a data set's README.md.
        name: of the configuration.
        where: the card's name in messages.

    Raises:
        UserError: the card does not say; the message names the configurations that there are.
    """
    configurations = _configurations(card, where)
    if name not in configurations:
        known = ", ".join(configurations) or "none"
        raise UserError(f"{where} has no configuration '{name}' (it has: {known})")
    patterns = _patterns(configurations[name])
    if not patterns:
        raise UserError(
            f"{where} names no {SPLIT} files for configuration '{name}': name `files` instead"
        )
    return patterns


def _configurations(card: Path, where: str) -> dict[str, Any]:
    """Return the `data_files` of each configuration."""
    from huggingface_hub import metadata_load
    from yaml import YAMLError

    try:
        entries = (metadata_load(card) or {}).get("configs") or []
        return {str(entry["config_name"]): entry.get("data_files") for entry in entries}
    except (YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(
            f"{where}: its YAML block is not a data set's: {' '.join(str(error).split())}"
        ) from error


def _patterns(data_files: Any) -> list[str]:
    """Return the globs of SPLIT from any of the forms that `datasets` reads.

    A glob, a list of them, a mapping from splits to either, or a list of entries with `split` and
    `path`. Files without a split are the training split.
    """
    if isinstance(data_files, str):
        return [data_files]
    if isinstance(data_files, dict):
        split = data_files.get("split", SPLIT) if "path" in data_files else SPLIT
        return _patterns(data_files.get("path", data_files.get(SPLIT))) if split == SPLIT else []
    return [pattern for entry in data_files or [] for pattern in _patterns(entry)]
