"""How backbones, scaling rules and tasks are written for people."""

from __future__ import annotations

import re

_BACKBONES = {"small": "GPT-2 small", "medium": "GPT-2 medium"}
_RULES = {"base": "base", "deeploop": "DeepLoop", "deepnorm": "DeepNorm", "vanilla": "Vanilla HRM"}
_TASKS = {
    "arc_challenge": "ARC-C",
    "arc_easy": "ARC-E",
    "hellaswag": "HellaSwag",
    "openbookqa": "OBQA",
    "piqa": "PIQA",
    "sciq": "SciQ",
    "social_iqa": "SIQA",
    "winogrande": "WG",
    "avg": "Avg",
}


def backbone_name(backbone: str) -> str:
    """Return the paper's name of a backbone, or ours."""
    return _BACKBONES.get(backbone, backbone)


def rule_name(rule: str) -> str:
    """Return the paper's name of a scaling rule, or ours."""
    return _RULES.get(rule, rule)


def task_name(task: str) -> str:
    """Return the paper's abbreviation of a downstream task, or the task's own name."""
    return _TASKS.get(task, task)


def slug(text: str) -> str:
    """Return `text` as part of a file name: letters, digits, dots and dashes only."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.") or "unnamed"
