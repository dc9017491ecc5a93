"""Stacks and tracebacks, in the learner's own lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ddp_course.launcher.recorder import is_library

_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)$')
_ESCAPE = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")


class Frame(NamedTuple):
    """One line of a stack."""

    file: str
    line: int
    name: str

    @property
    def is_library(self) -> bool:
        return is_library(self.file)


def main_thread(dump: str) -> list[Frame]:
    """The main thread's frames, innermost first, in what `faulthandler` wrote; [] where there are none.

    faulthandler writes the threads newest first, so the main thread comes last.
    """
    threads: list[list[Frame]] = []
    for line in dump.splitlines():
        if line.endswith("(most recent call first):"):
            threads.append([])
        elif threads and (found := _FRAME.match(line)):
            threads[-1].append(Frame(_unescape(found["file"]), int(found["line"]), found["name"]))
    return next((frames for frames in reversed(threads) if frames), [])


def _unescape(text: str) -> str:
    """faulthandler writes everything but ASCII as escapes."""
    return _ESCAPE.sub(lambda m: chr(int(next(filter(None, m.groups())), 16)), text)


def error_frames(error: dict[str, Any] | None) -> list[Frame]:
    """The frames of a rank's error record, innermost first."""
    frames = (error or {}).get("frames") or []
    return [Frame(str(f["file"]), int(f["line"] or 0), str(f["name"])) for f in reversed(frames)]


def learners(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame that is the learner's own."""
    return next((frame for frame in frames if not frame.is_library), None)


def called(frames: Sequence[Frame]) -> list[str]:
    """The names of the library functions that the learner's innermost line is in, the outermost first."""
    names = []
    for frame in frames:
        if not frame.is_library:
            break
        names.append(frame.name)
    return names[::-1]


def shown(file: str, cwd: Path) -> str:
    """The path as the learner knows it: relative to the notebook's folder where it is below that."""
    path = Path(file)
    try:
        return str(path.relative_to(cwd)) if path.is_absolute() else file
    except ValueError:
        return path.name


def source(file: str, line: int) -> str | None:
    """That line of the file, without its indentation; None where it cannot be read."""
    try:
        with open(file, encoding="utf-8", errors="replace") as text:
            for number, content in enumerate(text, 1):
                if number == line:
                    return content.strip()[:160] or None
    except OSError:
        pass
    return None


def trace(frames: Sequence[Frame], cwd: Path, most: int = 4) -> tuple[str, ...]:
    """A traceback trimmed to the learner's lines, the outermost first; frames between them are counted."""
    lines: list[str] = []
    hidden: list[Frame] = []
    own = [frame for frame in frames if not frame.is_library]
    if not own:
        return ()
    frames = frames[: len(frames) - frames[::-1].index(own[-1])]  # without what started the script
    skipped = set(map(id, own[most - 1 : -1] if len(own) > most else []))  # a recursion has equal frames
    for frame in reversed(frames):
        if frame.is_library:
            hidden.append(frame)
        elif id(frame) not in skipped:
            lines += _hidden(hidden)
            hidden = []
            text = source(frame.file, frame.line)
            lines.append(f"{shown(frame.file, cwd)}, line {frame.line}:" + (f"  {text}" if text else ""))
            if skipped and frame is own[-1]:
                lines.append(f"… {len(skipped)} more lines of yours")
    return (*lines, *_hidden(hidden))


def _hidden(frames: list[Frame]) -> list[str]:
    if not frames:
        return []
    parts = Path(frames[-1].file).parts
    packages = [i for i, part in enumerate(parts) if part in ("site-packages", "dist-packages")]
    library = [i for i, part in enumerate(parts) if part.startswith("python3")]
    start = max([*packages, *library], default=-1) + 1
    where = parts[start].removesuffix(".py") if 0 < start < len(parts) else "Python"
    return [f"… {len(frames)} frame{'s' * (len(frames) != 1)} in {where}"]
