"""The UTF-8 form of any Python string, also of one that has none."""

from __future__ import annotations


def utf8(text: str) -> bytes:
    """Return the UTF-8 form of text, lone surrogates replaced by U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return well_formed(text).encode()


def well_formed(text: str) -> str:
    """Return text with lone surrogates replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
