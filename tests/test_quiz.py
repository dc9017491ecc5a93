"""Quizzes and lab questions: their structure, their text form, their buttons."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ddp_course import LaunchError
from ddp_course.exercises import bookkeeping, every, lesson, numbers
from ddp_course.exercises.base import Lab, Option, Question
from ddp_course.exercises.quizzes import Quiz, explain, lab, quiz

QUIZZES = {number: lesson(number).QUIZ for number in numbers()}
CAUSES = [exercise for exercise in every() if isinstance(exercise, Lab)]
QUESTIONS = [
    pytest.param(question, id=f"{number}-{n}")
    for number, questions in QUIZZES.items()
    for n, question in enumerate(questions, 1)
] + [pytest.param(one.question, id=one.name) for one in CAUSES]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_has_one_right_option_and_explains_all(question: Question) -> None:
    assert 3 <= len(question.options) <= 6
    assert set(question.right) <= set(question.letters) and "".join(sorted(question.right)) == question.right
    assert len(question.right) == 1 or question.choose_all
    assert question.choose_all or len(question.right) == 1
    texts = [option.text for option in question.options]
    assert len(set(texts)) == len(texts)
    for option in question.options:
        assert len(option.why) >= 15, f"{option.text!r} is not explained"
    shown = [question.text, *texts, *(option.why for option in question.options)]
    prose = [" ".join(text.split("`")[::2]) for text in shown]
    assert not [text for text in prose if re.search(r"\*\w[^*]*\w\*|__\w", text)], "only `code` is marked up"


@pytest.mark.parametrize("number", QUIZZES)
def test_a_quiz_gives_nothing_away_by_its_form(number: str) -> None:
    questions = [q for q in QUIZZES[number] if not q.choose_all]
    assert len(QUIZZES[number]) >= 8
    letters = Counter(q.right for q in questions)
    assert max(letters.values()) <= len(questions) / 2, f"the right letters are {letters}"
    assert len(letters) >= 3, f"the right letters are {letters}"
    longest = [q for q in questions if max(q.options, key=lambda o: len(o.text)) is _right(q)]
    assert len(longest) <= len(questions) * 0.6, f"the longest option is right in {[q.text for q in longest]}"


def test_the_right_causes_of_the_labs_have_different_letters() -> None:
    letters = Counter(one.question.right for one in CAUSES)
    assert len(letters) >= 3 and max(letters.values()) <= len(CAUSES) / 2, letters


def _right(question: Question) -> Option:
    return question.options[question.letters.index(question.right)]


def test_the_text_form_shows_every_option_and_no_explanation() -> None:
    text = repr(quiz("02"))
    for question in QUIZZES["02"]:
        for letter, option in zip(question.letters, question.options, strict=True):
            assert f"{letter}) {option.text}" in " ".join(text.split())
            assert option.why not in " ".join(text.split())
    assert text == repr(quiz("2")), "the text is stored in notebooks: it must not change"
    assert 'quiz("02").answer(1, "letter")' in text


def test_answers_are_explained_and_noted(capsys: pytest.CaptureFixture[str]) -> None:
    first = QUIZZES["02"][0]
    quiz("02").answer(1, "b")
    assert capsys.readouterr().out == f"✗ b · {first.options[1].why}\n"
    assert bookkeeping.read()["quiz:02:1"]["state"] == "tried"
    quiz("02").answer(1, first.right.upper())
    assert capsys.readouterr().out == f"✓ a · {first.options[0].why}\n"
    assert bookkeeping.read()["quiz:02:1"] == {"state": "done", "tries": 2}
    lab("early_stop").answer("d")
    assert capsys.readouterr().out.startswith("✓ d · ")
    assert bookkeeping.read()["lab:early_stop"]["state"] == "done"


def test_all_answers_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    right = [question.right for question in QUIZZES["02"]]
    quiz("02", answers=" ".join(right))
    assert capsys.readouterr().out.splitlines()[-1] == f"{len(right)} of {len(right)} right"
    quiz("02", answers="-" * len(right))
    assert capsys.readouterr().out == f"0 of {len(right)} right\n"
    quiz("02", answers=" ".join(["b", *["-"] * (len(right) - 1)]))
    assert capsys.readouterr().out.startswith("1. ✗ b · ")


def test_choose_all_needs_all() -> None:
    question = Question("Which?", (Option("x", "x is"), Option("y", "y is"), Option("z", "z is not")), "ab", True)
    assert explain(question, "ab") == "✓ a · x is\n  b · y is"
    assert explain(question, "a").endswith("not all of them are chosen yet.")
    assert explain(question, "abc").startswith("✗")


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: quiz("02").answer(99, "a"), "there is no 99"),
        (lambda: quiz("02").answer(1, "x"), "takes a letter from abcd"),
        (lambda: quiz("02").answer(1, "ab"), "takes a letter from abcd"),
        (lambda: quiz("02", answers="ab"), "2 answers were given"),
        (lambda: quiz("77"), "There is no lesson '77'"),
        (lambda: lab("average_gradient"), "exercise without a question"),
        (lambda: lab("early"), "Did you mean early_stop?"),
    ],
)
def test_a_wrong_call_says_what_is_right(ask: Any, said: str) -> None:
    with pytest.raises(LaunchError, match=said.replace("?", r"\?")):
        ask()


def test_the_buttons_answer_and_show_the_explanation() -> None:
    from ddp_course.exercises.quiz_widget import widget

    questions = QUIZZES["02"]
    noted: list[tuple[int, str]] = []

    def feedback(number: int, letters: str) -> str:
        noted.append((number, letters))
        return explain(questions[number - 1], letters)

    shown = widget(questions, feedback).children
    assert [one.several for one in shown] == [question.choose_all for question in questions]
    assert not any(one.chosen for one in shown), "no option is chosen before the learner chooses"
    shown[0].chosen = [1]
    shown[0].chosen = [0]
    assert noted == [(1, "b"), (1, "a")]
    assert shown[0].said.startswith("✓ a · ") and not any(one.said for one in shown[1:])
    several = next(n for n, question in enumerate(questions) if question.choose_all)
    shown[several].chosen = [0, 2]
    assert noted[-1] == (several + 1, "ac")


def test_the_buttons_show_code_as_code_and_take_no_html_from_a_question() -> None:
    from ddp_course.exercises.quiz_widget import widget

    question = Question("Is `a < b`?", (Option("`yes`", "it is"), Option("<b>", "no tag")), "a")
    (shown,) = widget([question], lambda number, letters: explain(question, letters)).children
    assert shown.question == "<b>1.</b> Is <code>a &lt; b</code>?"
    assert shown.options == ["a) <code>yes</code>", "b) &lt;b&gt;"]


def test_the_stored_form_is_the_text_beside_the_buttons() -> None:
    shown = quiz("02")._repr_mimebundle_()
    assert shown["text/plain"] == repr(quiz("02"))
    assert "application/vnd.jupyter.widget-view+json" in shown


def test_without_widgets_the_text_is_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ddp_course.exercises.quiz_widget", None)
    assert list(quiz("02")._repr_mimebundle_()) == ["text/plain"]
    assert isinstance(quiz("02"), Quiz)


def test_of_several_letters_each_gets_its_mark(capsys: pytest.CaptureFixture[str]) -> None:
    question = Question(
        "Which are even?",
        tuple(Option(str(n), f"{n} is {'even' if n % 2 == 0 else 'odd'} indeed") for n in (1, 2, 3, 4)),
        "bd",
        choose_all=True,
    )
    assert explain(question, "bd").startswith("✓ b · 2 is even")
    assert explain(question, "ab").splitlines() == [
        "✗ not all of it:",
        "  ✗ a · 1 is odd indeed",
        "  ✓ b · 2 is even indeed",
    ]
    asked = Quiz("quiz", "quiz:test:{}", [question])
    asked.answer(1, "b", "d")
    asked.answer("bd")
    assert capsys.readouterr().out.count("✓ b") == 2
    with pytest.raises(LaunchError, match="questions 1 to 1; there is no first"):
        asked.answer("first", "b")
