"""What of a setting enters a specification."""

from __future__ import annotations

from pydantic import Field

from deeploop.stage import Section, resolved


class Inner(Section):
    width: int = 2
    later: bool = Field(default=False, json_schema_extra={"neutral": True})


class Outer(Section):
    rate: float = 0.5
    inner: Inner = Inner()
    steps: tuple[int, ...] = ()


def test_defaults_are_written_out() -> None:
    assert resolved(Outer()) == {"rate": 0.5, "inner": {"width": 2}, "steps": []}


def test_a_parameter_added_later_rekeys_nothing_while_neutral() -> None:
    assert resolved(Outer(inner=Inner(later=False))) == resolved(Outer())
    assert resolved(Outer(inner=Inner(later=True)))["inner"] == {"width": 2, "later": True}


def test_notation_does_not_count() -> None:
    assert resolved(Outer(rate=5e-1, steps=[1, 2])) == resolved(Outer(rate=0.50, steps=(1, 2)))
