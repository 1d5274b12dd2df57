"""Figures inlined into the page: ids made unique, colours and fonts handed to the page's style."""

from __future__ import annotations

import re
from html import escape

from deeploop.reporting.palette import VARIABLES

_NOT_INLINE = re.compile(
    r"^.*?(?=<svg)|\s*<metadata>.*?</metadata>|\s*<defs>\s*<style.*?</defs>", re.DOTALL
)
_SIZE = re.compile(r' width="[\d.]+pt" height="[\d.]+pt"')
_ID = re.compile(r'(\bid="|xlink:href="#|url\(#)')
_FONT = "'DejaVu Sans'"
_COLOR = re.compile("|".join(map(re.escape, VARIABLES)))


def inline(svg: str, name: str, alt: str) -> str:
    """Return `svg` for embedding in HTML.

    Args:
        svg: A figure as `figures.save` writes it.
        name: Unique on the page; prefixes every id.
        alt: What the figure shows, for screen readers.
    """
    body = _SIZE.sub("", _NOT_INLINE.sub("", svg), count=1)
    body = _ID.sub(rf"\g<1>{name}-", body)
    body = _COLOR.sub(lambda match: f"var(--{VARIABLES[match[0]]})", body)
    body = body.replace(_FONT, "inherit")
    label = escape(alt, quote=True)
    return body.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
