"""The questions of a quiz in a notebook: the browser's own radio buttons, or check boxes where several are right.

The mouse, or Tab, the arrow keys and Space answer; the explanation is announced to screen readers when it appears.
(The buttons of ipywidgets belong to no group, show no `code`, and leave the arrow keys to JupyterLab, which goes to
the next cell.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
import ipywidgets
import traitlets

from ddp_course.exercises.base import Question

Feedback = Callable[[int, str], str]

_ESM = """
function render({ model, el }) {
  const several = model.get("several");
  const form = document.createElement("form");
  const group = document.createElement("fieldset");
  const legend = document.createElement("legend");
  const said = document.createElement("div");
  legend.innerHTML = model.get("question");
  said.setAttribute("role", "status");
  group.append(legend);
  const inputs = model.get("options").map(text => {
    const label = document.createElement("label");
    const input = document.createElement("input");
    const words = document.createElement("span");
    input.type = several ? "checkbox" : "radio";
    input.name = "option";
    words.innerHTML = text;
    label.append(input, words);
    group.append(label);
    return input;
  });
  if (several) group.append(Object.assign(document.createElement("button"), { textContent: "Check" }));
  form.append(group, said);
  el.classList.add("ddp-choices");
  el.append(form);

  const show = () => {
    said.innerHTML = model.get("said");
    said.className = said.textContent.startsWith("✓") ? "ddp-right" : "ddp-wrong";
  };
  const answer = () => {
    const chosen = inputs.flatMap((input, n) => (input.checked ? [n] : []));
    if (String(chosen) === String(model.get("chosen"))) show();
    else if (chosen.length) { model.set("chosen", chosen); model.save_changes(); }
  };
  let walking = false;  // with the arrow keys, which check the next radio button and answer nothing
  form.addEventListener("keydown", event => {
    if (event.ctrlKey || event.shiftKey || event.altKey || event.metaKey || event.key === "Escape") return;
    event.stopPropagation();  // else it is a command of JupyterLab's: go to the next cell, delete this one
    walking = event.key.startsWith("Arrow");
    if (!several && event.target.checked && [" ", "Enter"].includes(event.key)) answer();
  });
  form.addEventListener("keyup", () => { walking = false; });
  form.addEventListener("change", () => {
    if (walking && !several) said.textContent = "Space or Enter answers.";
    else if (!several) answer();
  });
  form.addEventListener("submit", event => { event.preventDefault(); answer(); });
  model.on("change:said", show);
  for (const n of model.get("chosen")) inputs[n].checked = true;  // a page that was loaded again
  if (model.get("said")) show();
}
export default { render };
"""
_CSS = """
.ddp-choices { color: var(--jp-content-font-color1, inherit); line-height: 1.5; padding: 0 0 12px 4px; }
.ddp-choices fieldset { border: 0; margin: 0; padding: 0; min-width: 0; }
.ddp-choices legend { padding: 0; margin-bottom: 2px; }
.ddp-choices label { display: flex; align-items: flex-start; gap: 0.6em; padding: 1px 0; }
.ddp-choices input { flex: none; margin: 0.25em 0 0; accent-color: var(--jp-brand-color1, #1976d2); }
.ddp-choices button { margin-top: 4px; padding: 2px 12px; font: inherit; color: inherit; cursor: pointer; }
.ddp-choices button { background: var(--jp-layout-color2, #eee); border: 1px solid var(--jp-border-color1, #bbb); }
.ddp-choices [role=status]:not(:empty) { border-left: 3px solid #b34700; padding-left: 8px; margin: 4px 0; }
.ddp-choices [role=status].ddp-right { border-color: #0072b2; }
"""


class Choices(anywidget.AnyWidget):
    """One question. `chosen` holds the numbers of the options that were answered with, `said` what is shown below."""

    _esm = _ESM
    _css = _CSS
    question: Any = traitlets.Unicode().tag(sync=True)
    options: Any = traitlets.List(traitlets.Unicode()).tag(sync=True)
    several: Any = traitlets.Bool().tag(sync=True)
    chosen: Any = traitlets.List(traitlets.Int()).tag(sync=True)
    said: Any = traitlets.Unicode().tag(sync=True)


def widget(questions: list[Question], feedback: Feedback) -> Any:
    """All questions below each other. `feedback(number, letters)` notes an answer and explains it."""
    return ipywidgets.VBox([_question(number, question, feedback) for number, question in enumerate(questions, 1)])


def _question(number: int, question: Question, feedback: Feedback) -> Choices:
    from ddp_course.exercises.quizzes import as_html

    note = " <em>(choose all that are right)</em>" if question.choose_all else ""
    choices = Choices(
        question=f"<b>{number}.</b> {as_html(question.text)}{note}",
        options=[f"{letter}) {as_html(o.text)}" for letter, o in zip(question.letters, question.options, strict=True)],
        several=question.choose_all,
    )

    def answered(_: Any) -> None:
        letters = "".join(question.letters[n] for n in choices.chosen)
        choices.said = "<br>".join(map(as_html, feedback(number, letters).splitlines()))

    choices.observe(answered, names="chosen")
    return choices
