"""`quiz("02")` and `lab("…")`: questions that answer back, as radio buttons or as plain text."""

from __future__ import annotations

import html
import textwrap
from typing import Any

from ddp_course.errors import LaunchError
from ddp_course.exercises import bookkeeping, find
from ddp_course.exercises import lesson as module_of
from ddp_course.exercises.base import Lab, Question

_WIDTH = 100


def quiz(lesson: str, answers: str | None = None) -> Quiz:
    """The quick check of a lesson, such as "02".

    As the last line of a cell it shows radio buttons, and plain text where there are none. `answers`, one
    letter a question ("badc…"; "-" leaves one out), answers all at once; `.answer(3, "b")` answers one.
    Raises LaunchError where there is no such lesson or no such answer.
    """
    number = str(lesson).zfill(2)
    result = Quiz(f'quiz("{number}")', f"quiz:{number}:{{}}", list(module_of(number).QUIZ))
    if answers is not None:
        result.answer_all(answers)
    return result


def lab(name: str) -> Quiz:
    """The question of a break-it lab: what is the cause? Shown and answered as a quiz of one question."""
    exercise = find(name)
    if not isinstance(exercise, Lab):
        raise LaunchError(f"{name} is an exercise without a question: write your answer in a %%exercise {name} cell.")
    return Quiz(f'lab("{name}")', f"lab:{name}", [exercise.question])


class Quiz:
    """Some questions. `answer(number, letters)` answers one and prints why that is right or wrong."""

    def __init__(self, call: str, key: str, questions: list[Question]) -> None:
        self._call, self._key, self._questions = call, key, questions
        self._answered = False

    def answer(self, number: int | str, *letters: str) -> None:
        """Answer question `number` with a letter, or several ("ac", or "a", "c") where all are asked for.

        With one question the letters alone will do. Prints the explanation of every option chosen.
        """
        if not letters:
            number, letters = 1, (str(number),)
        if str(number) not in map(str, range(1, len(self._questions) + 1)):
            raise LaunchError(f"{self._call} has questions 1 to {len(self._questions)}; there is no {number}.")
        print(self._feedback(int(number), "".join(map(str, letters))))

    def answer_all(self, answers: str) -> None:
        """Answer every question, one letter each, or groups with blanks between them where several are right."""
        groups = answers.split() if " " in answers.strip() else list(answers.strip())
        if len(groups) != len(self._questions):
            raise LaunchError(
                f"{self._call} has {len(self._questions)} questions; {len(groups)} answers were given. "
                'Write one letter each, "-" for none, with blanks between them where one has several letters.'
            )
        self._answered = True
        right = 0
        for number, letters in enumerate(groups, 1):
            if letters != "-":
                feedback = self._feedback(number, letters)
                right += feedback.startswith("✓")
                print(f"{number}. {feedback}")
        print(f"{right} of {len(groups)} right")

    def _feedback(self, number: int, letters: str) -> str:
        question = self._questions[number - 1]
        chosen = "".join(sorted(set("".join(letters).lower()) - set(" ,")))
        if not chosen or set(chosen) - set(question.letters) or (len(chosen) > 1 and not question.choose_all):
            several = " Several can be right." if question.choose_all else ""
            raise LaunchError(
                f"Question {number} takes a letter from {question.letters}; {letters!r} is none.{several}"
            )
        right = chosen == question.right
        bookkeeping.record(self._key.format(number), "done" if right else "tried")
        return explain(question, chosen)

    def __repr__(self) -> str:
        if self._answered:
            return f"<{self._call}>"
        blocks = [_as_text(number, question) for number, question in enumerate(self._questions, 1)]
        one = len(self._questions) == 1
        how = f'{self._call}.answer({"" if one else "1, "}"letter")'
        return "\n\n".join([*blocks, f"Answer with the buttons, or in a cell: {how}"])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        plain = {"text/plain": repr(self)}
        if self._answered:
            return plain
        try:
            from ddp_course.exercises.quiz_widget import widget
        except ImportError:
            return plain
        return {**widget(self._questions, self._feedback)._repr_mimebundle_(), **plain}


def explain(question: Question, chosen: str) -> str:
    """What a learner reads after choosing: ✓ or ✗, and why, for each option chosen."""
    mark = "✓" if chosen == question.right else "✗"
    lines = [f"{letter} · {question.options[question.letters.index(letter)].why}" for letter in chosen]
    if len(chosen) > 1 and mark == "✗":  # which of them were right
        lines = ["not all of it:", *(f"{'✓' if line[0] in question.right else '✗'} {line}" for line in lines)]
    if question.choose_all and mark == "✗" and set(chosen) < set(question.right):
        lines.append("Right as far as it goes; not all of them are chosen yet.")
    return f"{mark} " + "\n  ".join(lines)


def _as_text(number: int, question: Question) -> str:
    note = " (choose all that are right)" if question.choose_all else ""
    head = textwrap.wrap(f"{number}. {question.text}{note}", _WIDTH, subsequent_indent="   ")
    for letter, option in zip(question.letters, question.options, strict=True):
        head += textwrap.wrap(f"{letter}) {option.text}", _WIDTH, initial_indent="   ", subsequent_indent="      ")
    return "\n".join(head)


def as_html(text: str) -> str:
    """Plain text for an HTML widget: escaped, with `code` marked."""
    pieces = html.escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces))
