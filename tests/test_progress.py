"""The file of the learner's progress, and what progress() says of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ddp_course import LaunchError
from ddp_course.exercises import bookkeeping, lesson, of_lesson
from ddp_course.exercises.bookkeeping import progress, read, record

FILE = Path(".ddp_course/progress.json")


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_at_the_start_everything_is_left_and_the_first_section_is_next() -> None:
    first = of_lesson("02")[0]
    text = repr(progress("02"))
    assert "0 of 24 done, 0 tried" in text
    assert "✓" not in text and "✗" not in text
    assert text.endswith(f"Go on with lesson 02: section {first.section}, cause of {first.name}.")


def test_done_tried_and_left_are_told_apart() -> None:
    record("exact_evaluation", "done")
    record("average_gradient", "tried")
    text = repr(progress("2"))
    assert "1 of 24 done, 1 tried" in text
    assert "  ✓ exact_evaluation\n" in text
    assert "  ✗ average_gradient · 6 min\n" in text
    minutes = sum(
        item.minutes for _, items in progress("02").lessons.values() for item in items if item.state != "done"
    )
    assert f"About {minutes} minutes of exercises ahead." in text


def test_when_all_is_done_it_says_so() -> None:
    for _, items in progress("02").lessons.values():
        for item in items:
            if not item.key.startswith("quiz:"):
                record(item.key, "done")
    for number in range(1, len(lesson("02").QUIZ) + 1):
        record(f"quiz:02:{number}", "done")
    assert repr(progress("02")).endswith("Everything is done.")


def test_what_was_done_stays_done() -> None:
    record("accumulate", "done")
    record("accumulate", "tried")
    record("accumulate", hints=2)
    assert read()["accumulate"] == {"tries": 2, "state": "done", "hints": 2}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"items": []}',
        b'{"items": {"a": 3}}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"items": ',
    ],
)
def test_a_damaged_file_is_set_aside_and_reported(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    record("accumulate", "done")
    FILE.write_bytes(content)
    record("resume", "done")
    assert read() == {"resume": {"tries": 1, "state": "done"}}
    assert "progress.damaged-1.json" in capsys.readouterr().out
    assert FILE.with_name("progress.damaged-1.json").read_bytes() == content
    FILE.write_bytes(content)
    read()
    assert FILE.with_name("progress.damaged-2.json").exists(), "the second damaged file replaced the first"


def test_a_crash_while_writing_leaves_the_old_file(monkeypatch: pytest.MonkeyPatch) -> None:
    record("accumulate", "done")
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(json, "dump", lambda content, file, **_: file.write('{"items": ') and 1 / 0)
        record("resume", "done")
    assert json.loads(FILE.read_text())["items"] == {"accumulate": {"tries": 1, "state": "done"}}


def test_two_notebooks_lose_nothing_to_each_other() -> None:
    code = (
        "import sys, ddp_course.exercises.bookkeeping as b\nfor i in range(100): b.record(f'{sys.argv[1]}{i}', 'done')"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "ab"]
    assert [process.wait(60) for process in both] == [0, 0]
    assert len(read()) == 200


def test_the_file_is_the_learners_alone_and_survives_unknown_items() -> None:
    record("an_exercise_of_a_later_version", "done")
    assert "an_exercise_of_a_later_version" in read()
    assert "an_exercise" not in repr(progress())
    assert Path(".ddp_course").stat().st_mode & 0o077 == 0


def test_a_folder_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(bookkeeping, "_store", refuse)
    with pytest.raises(LaunchError, match="Permission denied"):
        record("accumulate", "done")


def test_an_unknown_lesson_is_named() -> None:
    with pytest.raises(LaunchError, match="There is no lesson '77'"):
        progress("77")
