"""Every control of the course: labels, ranges, what it stores, and that each slider matters."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ddp_course import controls

MAKERS = {
    name: made
    for name, made in vars(controls).items()
    if getattr(made, "__annotations__", {}).get("return") == "Control" and made.__module__ == controls.__name__
}
CHOICES = [pytest.param(make, name, id=f"{maker}-{name}") for maker, make in MAKERS.items() for name in make()._choices]


def test_the_controls_are_found() -> None:
    assert {"memory_calculator", "decision_control", "scaling_model"} <= set(MAKERS)


@pytest.mark.parametrize(("make", "name"), CHOICES)
def test_a_slider_has_a_label_a_range_and_a_start_within(make: Any, name: str) -> None:
    label, values, start = make()._choices[name]
    assert label[0].isalpha() and len(label) <= 30
    assert 2 <= len(values) <= 24 and start in values
    assert list(values.values()) == sorted(set(values.values())), "from small to large, each once"


@pytest.mark.parametrize(("make", "name"), CHOICES)
def test_a_slider_answers_everywhere_and_matters_somewhere(make: Any, name: str) -> None:
    control = make()
    said = [control.text(**{name: position}) for position in control._choices[name].values]
    assert not any(re.search(r"\b(nan|inf)\b|\de\+|Error", text) for text in said), said
    others = [(other, text) for other, choice in control._choices.items() if other != name for text in choice.values]
    for other, text in others:  # a link between nodes means something only where there are several nodes
        if len(set(said)) == 1:
            said = [control.text(**{name: position, other: text}) for position in control._choices[name].values]
    assert len(set(said)) > 1, "no position of this slider changes the answer"


@pytest.mark.parametrize("maker", MAKERS)
def test_moving_a_slider_changes_what_is_shown(maker: str) -> None:
    *sliders, shown = MAKERS[maker]().widget().children
    before = shown.value
    assert 'role="status" aria-live="polite"' in before
    sliders[0].value = next(text for text in sliders[0].options if text != sliders[0].value)
    assert shown.value != before


@pytest.mark.parametrize("maker", MAKERS)
def test_a_control_stores_what_it_shows_at_its_start(maker: str) -> None:
    control = MAKERS[maker]()
    assert repr(control) == repr(MAKERS[maker]()), "it is stored in the notebook"
    assert control.text() in repr(control)
    assert control.picture()._repr_png_().startswith(b"\x89PNG")
