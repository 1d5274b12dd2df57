"""Text from data, made harmless in LaTeX and Markdown. HTML is escaped by the template engine."""

from __future__ import annotations

import re

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    '"': r"\textquotedbl{}",
    "−": "$-$",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "×": r"$\times$",
    "Δ": r"$\Delta$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "κ": r"$\kappa$",
    "σ": r"$\sigma$",
    "Θ": r"$\Theta$",
    "√": r"$\surd$",
    "¶": r"\P{}",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "§": r"\S{}",
    "·": r"$\cdot$",
    "—": "---",
    "–": "--",
    "…": r"\ldots{}",
    "\u00a0": "~",
}

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&$!])")


def latex(text: str) -> str:
    """Escape `text` for LaTeX; symbols that the tables use become mathematics."""
    return "".join(_LATEX.get(char, char) for char in text.replace("\n", " "))


def markdown(text: str) -> str:
    """Escape `text` for a Markdown paragraph or table cell, as code hosts render it."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))
