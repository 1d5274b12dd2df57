"""The harness check: a published HRM checkpoint, predicted and voted on by this pipeline.

If the published checkpoint scores what its authors report, then import, model, halting, build,
prediction and vote are theirs, and a difference between two arms of Table 3 is the arms' own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deeploop.arc.rows import ArcRows
from deeploop.arc.verdict import decide
from deeploop.errors import UserError
from deeploop.evaluation.arc_prediction import PREDICTIONS_FILE, predict_arc
from deeploop.fileio import dump_json
from deeploop.nn.hrm import HRM
from deeploop.nn.hrm_weights import fill, inferred_config, read_checkpoint, save_model

METRICS_FILE = "metrics.json"


def published_checkpoint(params: Mapping[str, Any], work: Path) -> Path:
    """Download the published checkpoint from the hub.

    Raises:
        UserError: when the hub, or the client for it, is not there.
    """
    try:
        from huggingface_hub import hf_hub_download

        found = hf_hub_download(params["hub"], params["hub_file"], cache_dir=work / "hub")
    except Exception as error:  # the client raises errors of several libraries
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{params['hub']} cannot be downloaded ({reason})") from None
    return Path(found)


def skipped(folder: Path, reason: str) -> None:
    """Record that the check was not made, and why."""
    metrics = {"outcome": "skipped", "reason": reason}
    (folder / METRICS_FILE).write_text(dump_json(metrics), encoding="utf-8")


def harness_check(
    checkpoint: Path,
    params: Mapping[str, Any],
    data_folder: Path,
    folder: Path,
    work: Path,
    execution: Mapping[str, Any],
    telemetry: Path,
    stop: Callable[[], bool],
) -> dict[str, Any]:
    """Score a published checkpoint and compare with what is expected; write `metrics.json`.

    Args:
        checkpoint: what the published code saved.
        params: `settings` that shapes do not show, `votes` (K) and the `expected` percentage.
        data_folder: outputs of `build_arc`, in the order the checkpoint was trained on.
        folder: where the result goes.
        work: the imported model and the predictions; outlives interruptions.
        execution: as for `predict_arc`.
        telemetry: JSON lines of rates, appended.
        stop: polled after every batch.

    Raises:
        Interrupted: stopped in order; the same call goes on.
        UserError: the file is no checkpoint, or of another build.
    """
    data = ArcRows(data_folder, "test")
    sizes = {"sequence_length": data.tokens, "identifiers": data.identifiers}
    weights = read_checkpoint(checkpoint)
    config = inferred_config(weights, sizes | dict(params["settings"]))
    model = HRM(config)
    fill(model, weights, str(checkpoint))
    save_model(work / "model", config, model.state_dict())
    places = (work / "model", data_folder, work, work)
    predict_arc("hrm", *places, execution, telemetry, stop, "hrm_harness_check")
    votes = decide(work / PREDICTIONS_FILE, data_folder, work, "hash")["votes"]
    metrics = _verdict(votes, params)
    (folder / METRICS_FILE).write_text(dump_json(metrics), encoding="utf-8")
    return metrics


def _verdict(votes: Mapping[Any, float], params: Mapping[str, Any]) -> dict[str, Any]:
    percent = {str(k): round(100 * value, 2) for k, value in votes.items()}
    found = percent[str(params["votes"])]
    return {
        "outcome": "passed" if found == params["expected"] else "failed",
        "percent": percent,
        "votes": params["votes"],
        "found": found,
        "expected": params["expected"],
    }
