"""Draws sheets of grids, as a picture and as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from deeploop.arc.sheet import Line, Tile

PALETTE = (
    "#000000", "#0074D9", "#FF4136", "#2ECC40", "#FFDC00",
    "#AAAAAA", "#F012BE", "#FF851B", "#7FDBFF", "#870C25",
)  # fmt: skip
"""The colours in which ARC is shown on its own site."""
CELL = 10
"""Pixels a cell."""
MARGIN = 12
TEXT = 14
"""Pixels a line of text."""


def draw_png(lines: Sequence[Line], path: Path) -> None:
    """Write the sheet as a PNG; equal sheets give equal bytes."""
    width = max(sum(map(_tile_width, line.tiles)) for line in lines) + 2 * MARGIN
    width = max([width, *(round(_text_width(line.title)) + 2 * MARGIN for line in lines)])
    height = sum(map(_line_height, lines)) + MARGIN
    image = Image.new("RGB", (width, height), "white")
    canvas, top = ImageDraw.Draw(image), MARGIN
    for line in lines:
        canvas.text((MARGIN, top), line.title, fill="black")
        left = MARGIN
        for tile in line.tiles:
            canvas.text((left, top + TEXT), tile.caption, fill="dimgray")
            _draw_grid(canvas, tile.grid, left, top + 2 * TEXT + 2)
            left += _tile_width(tile)
        top += _line_height(line)
    image.save(path, "PNG")


def _text_width(text: str) -> float:
    return ImageFont.load_default().getlength(text)


def _tile_width(tile: Tile) -> int:
    return MARGIN + max(tile.grid.shape[1] * CELL, round(_text_width(tile.caption)))


def _line_height(line: Line) -> int:
    return 2 * TEXT + MARGIN + CELL * max(tile.grid.shape[0] for tile in line.tiles)


def _draw_grid(canvas: ImageDraw.ImageDraw, grid: np.ndarray, left: int, top: int) -> None:
    for (row, column), colour in np.ndenumerate(grid):
        x, y = left + column * CELL, top + row * CELL
        canvas.rectangle((x, y, x + CELL, y + CELL), fill=PALETTE[colour], outline="#555555")


def draw_text(lines: Sequence[Line], coloured: bool, columns: int) -> str:
    """Return the sheet as text at most `columns` wide (one grid may be wider).

    Cells are two blanks on the cell's colour where `coloured` (24-bit terminal codes), else digits.
    """
    text: list[str] = []
    for line in lines:
        text += [line.title, ""]
        for tiles in _fill(line.tiles, columns):
            text += [*_side_by_side(tiles, coloured), ""]
    return "\n".join(text)


def _fill(tiles: Sequence[Tile], columns: int) -> list[list[Tile]]:
    """Break tiles into as few lines as fit."""
    broken: list[list[Tile]] = []
    used = columns
    for tile in tiles:
        width = _text_columns(tile) + 2
        if not broken or used + width > columns:
            broken.append([])
            used = 0
        broken[-1].append(tile)
        used += width
    return broken


def _text_columns(tile: Tile) -> int:
    return max(2 * tile.grid.shape[1], len(tile.caption))


def _side_by_side(tiles: Sequence[Tile], coloured: bool) -> list[str]:
    height = max(tile.grid.shape[0] for tile in tiles)
    text = ["  ".join(tile.caption.ljust(_text_columns(tile)) for tile in tiles).rstrip()]
    for row in range(height):
        cells = [
            "".join(_cell(colour, coloured) for colour in tile.grid[row : row + 1].reshape(-1))
            + " " * (_text_columns(tile) - 2 * tile.grid[row : row + 1].size)
            for tile in tiles
        ]
        text.append("  ".join(cells).rstrip(" "))
    return text


def _cell(colour: int, coloured: bool) -> str:
    if not coloured:
        return f"{colour} "
    red, green, blue = bytes.fromhex(PALETTE[colour][1:])
    return f"\x1b[48;2;{red};{green};{blue}m  \x1b[0m"
