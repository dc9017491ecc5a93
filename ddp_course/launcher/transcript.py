"""The text of a run: the command, every line with its rank, ranks in order. The same text each time."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ddp_course.launcher.run import Attempt, Rank
from ddp_course.launcher.tail import Excerpt

LINES = 400  # at most, for all ranks together

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[@-_]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_INSTALLED = re.compile(
    rf"({re.escape(sys.prefix)}|{re.escape(sys.base_prefix)})\S*?/(site-packages|dist-packages|python3\.\d+)/"
)
_DUMP_ENDS = re.compile(r"^Extension modules: .*\(total: \d+\)\n|\Z", re.M)
_CRASH = re.compile(r"(terminate called .*\n *what\(\):.*\n)?Fatal Python error: [\s\S]*?(\(total: \d+\)\n|\Z)")
_TORCH_LOG = re.compile(
    r"^(\[[EWIF]\d{4} \d\d:\d\d:\d\d\.\d+ \S+:\d+\] .*\n(Exception raised from .*\n)?"
    r"|(frame #\d+: |C\+\+ CapturedTraceback|<omitting python frames>).*\n\n*)",
    re.M,
)


def transcript(
    commands: dict[int, str], ranks: list[Rank], cwd: Path, ended: str, hide_tracebacks: bool = False
) -> str:
    """The whole text: what each node is started with, and below it what its ranks wrote.

    `ended` is its last line; tracebacks that the diagnosis shows are left out on request.
    """
    lines = []
    budget = max(4, (LINES - 8) // (2 * max(1, len(ranks))))
    for node, prompt in prompts(commands).items():
        lines.append(prompt)
        for rank in ranks:
            for attempt in rank.attempts:
                if len(commands) == 1 or attempt.node == node:
                    lines += _attempt(rank.rank, attempt, budget, cwd, hide_tracebacks)
    return "\n".join([*lines, ended])


def prompts(commands: dict[int, str]) -> dict[int, str]:
    """Each node's command as its terminal shows it."""
    if len(commands) == 1:
        return {node: f"$ {command}" for node, command in commands.items()}
    return {node: f"node {node} $ {command}" for node, command in commands.items()}


def _attempt(rank: int, attempt: Attempt, budget: int, cwd: Path, hide_tracebacks: bool) -> list[str]:
    """Of an attempt that was followed by another: how a signal ended it, and no traceback of a mere victim."""
    from ddp_course.diagnosis.who import End

    lines = [f"rank {rank} ↻ attempt {attempt.number + 1}"] if attempt.number else []
    lines += _stream(rank, attempt, "out", budget, cwd)
    hide = hide_tracebacks or End(rank, attempt).status == "lost"
    lines += _stream(rank, attempt, "err", budget, cwd, _traceback(rank, attempt) if hide else None)
    if attempt.signal not in (None, "SIGTERM", "SIGINT") and not hide_tracebacks:
        lines.append(f"rank {rank} ✗ {attempt.signal}")
    return lines


def _stream(
    rank: int, attempt: Attempt, kind: str, budget: int, cwd: Path, without: list[str] | None = None
) -> list[str]:
    """`without`: on stderr of a failed run, the tracebacks to leave out; what torch's C++ code logs goes with them,
    for it differs on every run."""
    label = f"rank {rank} │ " if kind == "out" else f"rank {rank} stderr │ "
    excerpt = Excerpt(attempt.tail(kind), budget)
    head, end = excerpt.head.decode(errors="replace"), excerpt.tail.decode(errors="replace")
    omitted = excerpt.omitted
    if without is not None:
        if "Fatal Python error:" in head and omitted and (rest := _DUMP_ENDS.search(end)):
            end, omitted = end[rest.end() :], 0
        for text in without:
            head, end = head.replace(text, ""), end.replace(text, "")
        head, end = _CRASH.sub("", head), _CRASH.sub("", end)
        head, end = _TORCH_LOG.sub("", head), _TORCH_LOG.sub("", end)
    lines = [label + clean(line, cwd) for line in split(head)]
    if omitted:
        where = attempt.path(kind)
        path = where.relative_to(cwd) if where.is_relative_to(cwd) else where
        lines.append(f"rank {rank} ⋯ {omitted:,} bytes left out; all of it is in {path}")
    return lines + [label + clean(line, cwd) for line in split(end)]


def split(text: str) -> list[str]:
    """The lines of what a rank wrote: only a newline ends one."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _traceback(rank: int, attempt: Attempt) -> list[str]:
    """The traceback as Python prints it and as torch.distributed does, with the rank before each line."""
    error = attempt.json("error")
    if not error or error["type"] == "SystemExit":
        return []
    text = str(error["traceback"])
    return ["".join(f"[rank{rank}]: {line}\n" if line else "\n" for line in text.splitlines()), text]


def clean(line: str, cwd: Path) -> str:
    """One line as a terminal would end up showing it: after the last carriage return, colours kept, other
    control characters out, paths below `cwd` and in the packages shortened."""
    line = line.rsplit("\r", 1)[-1]
    colours = _COLOUR.findall(line)
    line = _CONTROL.sub(lambda m: m.group() if _COLOUR.fullmatch(m.group()) else "", line)
    if colours and colours[-1] not in ("\x1b[0m", "\x1b[m"):
        line += "\x1b[0m"
    line = line.replace(f"{cwd}/", "")
    return _INSTALLED.sub("…/", line)
