"""The questions of a quiz as ipywidgets: radio buttons, or check boxes where several are right.

Tab and the arrow keys reach every option; the explanation is announced to screen readers when it appears.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets

from ddp_course.exercises.base import Question

Feedback = Callable[[int, str], str]


def widget(questions: list[Question], feedback: Feedback) -> Any:
    """All questions below each other. `feedback(number, letters)` notes an answer and explains it."""
    return ipywidgets.VBox([_question(number, question, feedback) for number, question in enumerate(questions, 1)])


def _question(number: int, question: Question, feedback: Feedback) -> Any:
    from ddp_course.exercises.quizzes import as_html

    note = " <em>(choose all that are right)</em>" if question.choose_all else ""
    text = ipywidgets.HTML(f'<div style="line-height:1.5"><b>{number}.</b> {as_html(question.text)}{note}</div>')
    answer = ipywidgets.HTML()

    def show(letters: str) -> None:
        said = feedback(number, letters)
        lines = "<br>".join(map(as_html, said.splitlines()))
        colour = "#0072b2" if said.startswith("✓") else "#b34700"  # told apart by the mark too
        answer.value = (
            f'<div role="status" aria-live="polite" style="border-left:3px solid {colour};padding-left:8px;'
            f'margin:4px 0 12px;line-height:1.5">{lines}</div>'
        )

    choose = _boxes if question.choose_all else _radio
    return ipywidgets.VBox([text, *choose(question, show), answer])


def _labels(question: Question) -> list[str]:
    return [f"{letter}) {o.text}" for letter, o in zip(question.letters, question.options, strict=True)]


def _radio(question: Question, show: Callable[[str], None]) -> list[Any]:
    options = [
        (label.replace("`", ""), letter) for label, letter in zip(_labels(question), question.letters, strict=True)
    ]
    buttons = ipywidgets.RadioButtons(options=options, value=None, layout={"width": "auto"})
    buttons.observe(lambda change: show(change["new"]) if change["new"] else None, names="value")
    return [buttons]


def _boxes(question: Question, show: Callable[[str], None]) -> list[Any]:
    boxes = [
        ipywidgets.Checkbox(description=label.replace("`", ""), indent=False, layout={"width": "auto"})
        for label in _labels(question)
    ]
    check = ipywidgets.Button(description="Check")

    def pressed(_: Any) -> None:
        chosen = "".join(letter for letter, box in zip(question.letters, boxes, strict=True) if box.value)
        if chosen:
            show(chosen)

    check.on_click(pressed)
    return [*boxes, check]
