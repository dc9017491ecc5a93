"""`progress()`: what is done, tried and left, kept in `.ddp_course/progress.json` beside the notebook."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ddp_course.errors import LaunchError
from ddp_course.launcher.folders import course_folder

_MARKS = {"done": "✓", "tried": "✗", "left": "○"}
QUIZ_MINUTES = 5
CAUSE_MINUTES = 2


class Item(NamedTuple):
    """One thing to do: its key in the file, what it is, its minutes, its state."""

    key: str
    title: str
    section: int
    minutes: int
    state: str


class Overview:
    """The state of every exercise, lab and quick check. Prints as a table."""

    def __init__(self, lessons: dict[str, tuple[str, list[Item]]]) -> None:
        self.lessons = lessons

    def __repr__(self) -> str:
        lines: list[str] = []
        for number, (title, items) in self.lessons.items():
            lines += [*_lesson_lines(number, title, items), ""]
        return "\n".join([*lines, self.ahead])

    @property
    def ahead(self) -> str:
        """How much is left and where to go on, a line each."""
        left = [(number, item) for number, (_, items) in self.lessons.items() for item in items if item.state != "done"]
        if not left:
            return "Everything is done."
        number, item = left[0]
        minutes = sum(item.minutes for _, item in left)
        return f"About {minutes} minutes of exercises ahead.\nGo on with lesson {number}: {_where(item)}."


def _lesson_lines(number: str, title: str, items: list[Item]) -> list[str]:
    count = {state: sum(item.state == state for item in items) for state in _MARKS}
    head = f"Lesson {number} · {title}: {count['done']} of {len(items)} done, {count['tried']} tried"
    rows = [
        f"  {_MARKS[item.state]} {item.title}" + f" · {item.minutes} min" * (item.state != "done") for item in items
    ]
    return [head, *rows]


def _where(item: Item) -> str:
    return f"section {item.section}, {item.title}" if item.section else item.title


def progress(lesson: str | None = None) -> Overview:
    """What is done, tried and left in `lesson` ("02"), or in all lessons, and where to go on."""
    from ddp_course import exercises

    stored = read()
    wanted = [str(lesson).zfill(2)] if lesson else list(exercises.numbers())
    result = {}
    for number in wanted:
        items = []
        for exercise in exercises.of_lesson(number):
            if hasattr(exercise, "question"):
                items.append(
                    _item(stored, f"lab:{exercise.name}", f"cause of {exercise.name}", exercise, CAUSE_MINUTES)
                )
            items.append(_item(stored, exercise.name, exercise.name, exercise, exercise.minutes))
        module = exercises.lesson(number)
        keys = [f"quiz:{number}:{n}" for n in range(1, len(module.QUIZ) + 1)]
        states = {stored.get(key, {}).get("state", "left") for key in keys}
        if keys:
            state = "done" if states == {"done"} else "left" if states == {"left"} else "tried"
            items.append(Item(f"quiz:{number}", f'quick check, quiz("{number}")', 0, QUIZ_MINUTES, state))
        result[number] = (module.TITLE, items)
    return Overview(result)


def _item(stored: dict[str, Any], key: str, title: str, exercise: Any, minutes: int) -> Item:
    return Item(key, title, exercise.section, minutes, stored.get(key, {}).get("state", "left"))


def record(key: str, state: str | None = None, **values: Any) -> None:
    """Note the state of one item: tried or done. What was done once stays done. Other values are kept as given."""
    with _locked() as path:
        everything = _load(path)
        item = everything.setdefault(key, {})
        if state is not None:
            item["tries"] = item.get("tries", 0) + 1
            item["state"] = "done" if item.get("state") == "done" else state
        item.update(values)
        _store(path, everything)


def read() -> dict[str, Any]:
    """Everything that is noted, by key."""
    with _locked() as path:
        return _load(path)


@contextmanager
def _locked() -> Iterator[Path]:
    """The file, while no other notebook reads or writes it."""
    folder = course_folder()
    try:
        with open(folder / "progress.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield folder / "progress.json"
    except OSError as error:
        raise LaunchError(f"Cannot keep the progress in {folder.name} ({error.strerror}).") from error


def _load(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        text = ""
    try:
        content = json.loads(text)
        if all(isinstance(item, dict) for item in content["items"].values()):
            return dict(content["items"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    aside = _set_aside(path)
    print(f"The file of your progress was damaged. It is kept as .ddp_course/{aside.name}; the count starts anew.")
    print("Your answers are all still in .ddp_course/answers.")
    return {}


def _set_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"progress.damaged-{number}.json")).exists():
        number += 1
    os.replace(path, aside)
    return aside


def _store(path: Path, items: dict[str, Any]) -> None:
    """Written beside the file and renamed over it: whoever reads finds the old content or the new."""
    partial = path.with_suffix(".part")
    with open(partial, "w", encoding="utf-8") as file:
        json.dump({"version": 1, "items": items}, file, indent=1, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
