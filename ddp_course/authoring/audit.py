"""What a stored notebook must not hold: traces of one machine or one run, and answers in a lesson."""

from __future__ import annotations

import html
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ddp_course.authoring.source import MAY_REPEAT, Answer, BuildError, name_cell, squash

# Shorter text proves nothing: `return x` stands in a lesson by chance.
_SHORTEST_ANSWER, _SHORTEST_LINE = 12, 16

_HERE = {tempfile.gettempdir(), str(Path.home()), str(Path.cwd()), sys.prefix} - {"/"}
_ROOTS = "home|root|Users|tmp|private|usr|opt|var|mnt|srv|content|kaggle|work|workspace"
_UNIX = rf"(?<![\w.:/~-])(?:/(?:{_ROOTS})/[^\s/]|(?:{'|'.join(map(re.escape, _HERE))})\b)"
_PATH = rf"{_UNIX}|\b[A-Za-z]:\\\w|(?<!…/)site-packages"  # the launcher shortens to …/
_TRACES = {
    "an absolute path": (re.compile(_PATH), "print a relative one."),
    "a warning": (re.compile(r"\b\w*Warning\b|\bWARNING\b|^\[[WE]\d{3}", re.MULTILINE), "remove its cause."),
    "a memory address": (re.compile(r"\b0x[0-9a-fA-F]{6,}"), "print the object's content instead."),
}
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_PNG = re.compile(r"data:image/png;base64,[\w+/=]*")  # letters at random, and so now and then a path
_PICTURES_LOST = ("image/svg+xml", "image/jpeg", "application/javascript")


def texts(node: Any) -> Iterator[str]:
    """Every string in a piece of a notebook, the keys of dicts too."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict):
        for key, value in node.items():
            yield str(key)
            yield from texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from texts(value)


def audit(notebook: Any, file: str) -> None:
    """Raise `BuildError`, naming each cell, where a cell was not executed or an output cannot be stored."""
    problems, executed = [], 0
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code":
            continue
        executed += cell.execution_count is not None
        where = name_cell(file, number, cell)
        if cell.execution_count is None or cell.execution_count != executed:
            problems.append(f"{where} was never executed, so nbval skips it; fill, untag or delete it.")
        problems += [f"{where} {problem}" for output in cell.outputs for problem in output_problems(output)]
    if problems:
        raise BuildError("\n\n".join(problems))


def output_problems(output: Any) -> list[str]:
    """What keeps one output from being stored, each with what to do about it."""
    if output.output_type == "stream" and output.name == "stderr":
        return [f"writes to stderr: {output.text.strip()[:200]!r}; remove the cause, or print it to stdout."]
    problems = [
        f"shows {kind}, which nobody sees in an untrusted notebook; show a PNG."
        for kind in _PICTURES_LOST
        if kind in output.get("data", {})
    ]
    readable = {key: value for key, value in output.items() if key != "data"}
    readable |= {key: value for key, value in output.get("data", {}).items() if not key.startswith("image/")}
    for text in texts(readable):
        text = html.unescape(_PNG.sub("", _ANSI.sub("", text)))
        for what, (pattern, advice) in _TRACES.items():
            if found := pattern.search(text):
                problems.append(f"shows {what}: {_line_at(text, found.start())!r}; {advice}")
    return list(dict.fromkeys(problems))  # an error's message is in its traceback too


def audit_answers(lesson: Any, answers: list[Answer], file: str) -> None:
    """Raise `BuildError` where text of a solution stands in any cell, output or metadata of the lesson."""
    problems = []
    for where, text in _pieces(lesson, file):
        found = {answer.where: line for answer in answers if (line := _survivor(answer, text))}
        for origin, line in found.items():
            problems.append(
                f"{where} still holds an answer, `{line.strip()[:80]}`, of {origin}. Take it "
                f"out of the lesson, or tag that cell {MAY_REPEAT} where only the whole solution is a secret."
            )
    if problems:
        raise BuildError("\n\n".join(problems))


def _pieces(lesson: Any, file: str) -> Iterator[tuple[str, str]]:
    yield f"{file}, metadata,", squash(json.dumps(lesson.metadata))
    for number, cell in enumerate(lesson.cells, 1):
        forms = (form for text in texts(cell) for form in (text, _plain(text)))
        yield name_cell(file, number, cell), "\n".join(map(squash, forms))


def _survivor(answer: Answer, squashed: str) -> str | None:
    """The first line of `answer`, or all of it, that the text holds."""
    whole = squash(answer.text)
    if len(whole) >= _SHORTEST_ANSWER and whole in squashed:
        return answer.text
    if answer.may_repeat:
        return None
    for line in answer.text.splitlines():
        bare = squash(line)
        is_common = line.strip().startswith(("import ", "from ", "%"))
        if len(bare) >= _SHORTEST_LINE and not is_common and bare not in answer.given and bare in squashed:
            return line
    return None


def _plain(text: str) -> str:
    """The text as it is read: no colours, no HTML tags."""
    return html.unescape(re.sub(r"<[^<>]*>", "", _ANSI.sub("", text)))


def _line_at(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    return text[start:].split("\n", 1)[0].strip()[:160]
