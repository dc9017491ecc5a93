"""The text of a run: the command, every line with its rank, ranks in order. The same text each time."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ddp_course.run import Attempt, Rank
from ddp_course.tail import Excerpt

LINES = 400  # at most, for all ranks together

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[@-_]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def transcript(command: str, ranks: list[Rank], cwd: Path, ended: str, hide_tracebacks: bool = False) -> str:
    """The whole text. `ended` is its last line; tracebacks that the diagnosis shows are left out on request."""
    lines = [f"$ {command}"]
    budget = max(4, (LINES - 8) // (2 * max(1, len(ranks))))
    for rank in ranks:
        for attempt in rank.attempts:
            if attempt.number:
                lines.append(f"rank {rank.rank} ↻ attempt {attempt.number + 1}")
            lines += _stream(rank.rank, attempt, "out", budget, cwd, "")
            without = _traceback(attempt) if hide_tracebacks else ""
            lines += _stream(rank.rank, attempt, "err", budget, cwd, without)
    return "\n".join([*lines, ended])


def _stream(rank: int, attempt: Attempt, kind: str, budget: int, cwd: Path, without: str) -> list[str]:
    label = f"rank {rank} │ " if kind == "out" else f"rank {rank} stderr │ "
    excerpt = Excerpt(attempt.tail(kind), budget)
    head, end = excerpt.head.decode(errors="replace"), excerpt.tail.decode(errors="replace")
    if without:
        head, end = head.replace(without, ""), end.replace(without, "")
    lines = [label + clean(line, cwd) for line in _lines(head)]
    if excerpt.omitted:
        where = attempt.path(kind)
        path = where.relative_to(cwd) if where.is_relative_to(cwd) else where
        lines.append(f"rank {rank} ⋯ {excerpt.omitted:,} bytes left out; all of it is in {path}")
        lines += [label + clean(line, cwd) for line in _lines(end)]
    return lines


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _traceback(attempt: Attempt) -> str:
    error = attempt.json("error")
    return str(error["traceback"]) if error else ""


def clean(line: str, cwd: Path) -> str:
    """One line as a terminal would end up showing it: after the last carriage return, colours kept, other
    control characters out, paths below `cwd` and in the packages shortened."""
    line = line.rsplit("\r", 1)[-1]
    colours = _COLOUR.findall(line)
    line = _CONTROL.sub(lambda m: m.group() if _COLOUR.fullmatch(m.group()) else "", line)
    if colours and colours[-1] not in ("\x1b[0m", "\x1b[m"):
        line += "\x1b[0m"
    line = line.replace(f"{cwd}/", "")
    return re.sub(rf"{re.escape(sys.prefix)}\S*?/(site-packages|python3\.\d+)/", r"…/", line)
