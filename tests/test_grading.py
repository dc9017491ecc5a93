"""`ddp-course check` on a room of notebooks, some of them hostile; and nbgrader on a lesson."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest

from ddp_course.authoring.grade_marks import add_grade_marks
from ddp_course.exercises import find, grader, grading, of_lesson

BANK = Path(__file__).parent / "answers"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # nbgrader calls `alembic` by its bare name.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def bank(name: str, answer: str) -> str:
    return f"%%exercise {name}\n" + (BANK / name / f"{answer}.py").read_text()


def notebook(path: str, *cells: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    Path(path).write_text(nbformat.writes(made))


def stop(text: str) -> str:
    return f"%%exercise early_stop\nimport os, subprocess, sys, time\ndef should_stop(stop_here):\n    {text}\n"


def graded(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[tuple[str, str], Any], dict[str, str]]:
    assert grading.main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    states = {(g["notebook"], g["exercise"]): (g["state"], g["feedback"]) for g in found["grades"]}
    return states, {one["notebook"]: one["reason"] for one in found["skipped"]}


def test_a_room(capsys: pytest.CaptureFixture[str]) -> None:
    """Good, wrong, blank and missing answers, files that are no notebooks; no other cell runs; nothing is left."""
    notebook(
        "room/ada.ipynb", "open('ran', 'w')", bank("average_gradient", "right_gather"), bank("early_stop", "right_max")
    )
    notebook("room/bob.ipynb", "%%exercise average_gradient\n" + find("average_gradient").stub, "raise SystemExit")
    notebook(
        "room/cy.ipynb", bank("early_stop", "right_max"), bank("early_stop", "wrong_own"), "%%exercise nonsense\n1"
    )
    notebook("room/dan.ipynb", "%%exercise early_stop\ndef should_stop(:\n")
    for name, content in {
        "cut": "{",
        "deep": "[" * 100_000,
        "list": "[]",
        "text": '{"cells": [3]}',
        "binary": "\0",
    }.items():
        Path(f"room/{name}.ipynb").write_text(content)
    os.mkfifo("room/pipe.txt")
    states, skipped = graded(capsys, "room")
    assert {key: state for key, (state, _) in states.items()} == {
        ("room/ada.ipynb", "average_gradient"): "passed",
        ("room/ada.ipynb", "early_stop"): "passed",
        ("room/bob.ipynb", "average_gradient"): "blank",
        ("room/bob.ipynb", "early_stop"): "missing",
        ("room/cy.ipynb", "average_gradient"): "missing",
        ("room/cy.ipynb", "early_stop"): "failed",
        ("room/dan.ipynb", "average_gradient"): "missing",
        ("room/dan.ipynb", "early_stop"): "failed",
    }
    assert "nothing was exchanged" in states["room/cy.ipynb", "early_stop"][1]
    assert "line 2" in states["room/dan.ipynb", "early_stop"][1]
    assert sorted(skipped) == [f"room/{name}.ipynb" for name in ("binary", "cut", "deep", "list", "text")]
    assert not list(Path.cwd().rglob("ran"))
    assert not [p for p in psutil.Process().children(recursive=True) if "grader" in " ".join(p.cmdline())]


def test_hostile_answers_end_neither_the_run_nor_the_answers_after_them(capsys: pytest.CaptureFixture[str]) -> None:
    spawn = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(987)'], start_new_session=True)"
    answers = {
        "daemon": spawn + "; return stop_here",
        "parent": "os.kill(os.getppid(), 9); time.sleep(60)",
        "memory": "return bytearray(1 << 40)",
        "disk": "open('/dev/full', 'w').write('x' * 100000); return 1",
        "flood": "[print('x' * 1000, flush=True) for _ in iter(int, 1)]",
        "escape": r"print('\x1b[2J'); raise ValueError('\x1b[2J gone')",
    }
    for name, text in answers.items():
        notebook(f"{name}.ipynb", stop(text))
    notebook("zoe.ipynb", bank("early_stop", "right_max"))
    states, _ = graded(capsys, ".", "--memory", "3")
    assert states.pop(("zoe.ipynb", "early_stop"))[0] == "passed"
    assert len(states) == len(answers)
    assert {state for state, _ in states.values()} == {"failed"}, states
    assert "MemoryError" in states["memory.ipynb", "early_stop"][1]
    assert not any("\x1b[2J" in text for _, text in states.values())
    assert not [p for p in psutil.process_iter(["cmdline"]) if "time.sleep(987)" in " ".join(p.info["cmdline"] or [])]


def test_an_answer_that_takes_too_long_is_stopped_and_its_grader_replaced() -> None:
    one = grader.Grader(grader.Limits(1.5, 4 << 30))
    try:
        right = (BANK / "early_stop" / "right_max.py").read_text()
        one._start()
        ready = time.monotonic()
        hang = stop("while True: pass").split("\n", 1)[1]
        assert one.grade("early_stop", hang, 1) == {
            "state": "stopped",
            "text": "! early_stop · stopped: no result within 1.5 s.",
        }
        assert time.monotonic() - ready < 6
        one._limits = grader.Limits(60, 4 << 30)
        assert one.grade("early_stop", right, 1)["state"] == "passed"
    finally:
        one.close()


def test_a_stopped_run_goes_on_where_it_was(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ada", "bob", "cy"):
        notebook(f"{name}.ipynb", bank("early_stop", "wrong_own") + f"# {name}\n")
    calls: list[str] = []

    def grade(self: Any, name: str, cell: str, seed: int) -> dict[str, str]:
        calls.append(cell.splitlines()[-1])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return {"state": "passed", "text": f"✓ {name}"}

    monkeypatch.setattr(grader.Grader, "grade", grade)
    assert grading.main([".", "--jobs", "1"]) == 130
    assert "goes on from here" in capsys.readouterr().err
    done = len(Path(".ddp_course/grades.jsonl").read_text().splitlines())
    with open(".ddp_course/grades.jsonl", "a") as file:
        file.write('{"key": "cut o')
    calls[:] = [""] * 5
    states, _ = graded(capsys, ".")
    assert len(calls) - 5 == 3 - done and done >= 1
    assert [state for state, _ in states.values()] == ["passed"] * 3
    calls[:] = [""] * 5
    graded(capsys, ".", "--fresh")
    assert len(calls) - 5 == 3


def test_the_forms(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    notebook("=1+1.ipynb", bank("early_stop", "wrong_own"))
    Path("cut.ipynb").write_text("{")
    result = {"state": "failed", "text": "✗ early_stop · said so"}
    monkeypatch.setattr(grader.Grader, "grade", lambda *_: result)
    assert grading.main([".", "--csv"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows == [
        ["notebook", "exercise", "state", "feedback"],
        ["'=1+1.ipynb", "early_stop", "failed", result["text"]],
        ["cut.ipynb", "", "skipped", "not a notebook"],
    ]
    assert grading.main(["."]) == 0
    table = capsys.readouterr().out
    assert "=1+1.ipynb   ✗\n" in table and result["text"] in table and "skipped cut.ipynb: not a notebook" in table
    assert grading.main(["nothing_here"]) == 0, "a name that is no folder is taken for a notebook, and skipped"
    os.mkdir("empty")
    assert grading.main(["empty"]) == 2


def course(folder: Path, *cells: str) -> Any:
    """A course of nbgrader with one assignment, `lesson`, made of these cells."""
    from nbgrader.api import Gradebook
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import Config

    config = Config()
    config.CourseDirectory.root = str(folder)
    config.CourseDirectory.db_url = f"sqlite:///{folder}/gradebook.db"
    config.ExecutePreprocessor.timeout = 240
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    add_grade_marks(made)
    (folder / "source" / "lesson").mkdir(parents=True)
    (folder / "source" / "lesson" / "lesson.ipynb").write_text(nbformat.writes(made))
    return NbGraderAPI(config=config), Gradebook(config.CourseDirectory.db_url)


START = "%load_ext ddp_course\nfrom ddp_course import score"
SCORE = 'score("02")'


def test_nbgrader_makes_and_grades_a_lesson(tmp_path: Path) -> None:
    stubs = [f"%%exercise {name}\n{find(name).stub}" for name in ("early_stop", "average_gradient")]
    api, gradebook = course(tmp_path, START, *stubs, SCORE)
    assert api.generate_assignment("lesson")["success"]
    released = nbformat.read(tmp_path / "release" / "lesson" / "lesson.ipynb", 4)
    released.cells[1].source = bank("early_stop", "right_max")
    released.cells[3].source = "15  # all of them, surely"
    submitted = tmp_path / "submitted" / "ada" / "lesson"
    submitted.mkdir(parents=True)
    nbformat.write(released, submitted / "lesson.ipynb")
    result = api.autograde("lesson", "ada")
    assert result["success"], result
    with gradebook:
        graded_notebook = gradebook.find_submission_notebook("lesson", "lesson", "ada")
        assert (graded_notebook.score, graded_notebook.max_score) == (1, len(of_lesson("02")))


@pytest.mark.bank
def test_nbgrader_validates_a_lesson_that_is_done_and_no_other(tmp_path: Path) -> None:
    from nbgrader.validator import Validator

    right = [bank(e.name, min((BANK / e.name).glob("right_*.py")).stem) for e in of_lesson("02")]
    course(tmp_path, START, *right, SCORE)
    path = tmp_path / "source" / "lesson" / "lesson.ipynb"
    validator = Validator()
    assert not validator.validate(str(path)).get("failed")
    made = nbformat.read(path, 4)
    made.cells[1].source = "%%exercise rank_0_only\n" + find("rank_0_only").stub
    nbformat.write(made, path)
    assert validator.validate(str(path))["failed"]
    shutil.rmtree(tmp_path / "source")
