"""Who did it: how each rank ended, which ended by their own doing, and which only suffered from it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ddp_course.diagnosis import causes
from ddp_course.diagnosis.code import Frame, error_frames, learners, main_thread, source
from ddp_course.launcher.recorder import is_library
from ddp_course.launcher.run import Attempt, Run

_AGENT_PATIENCE = 2.5  # seconds; the agent sends SIGKILL 3 s after SIGTERM
_TAIL = 1 << 16
_TORCHS_OWN = {"RuntimeError", "DistError", "DistBackendError", "DistNetworkError", "DistStoreError"}

_ORIGIN = "raised from "
_HANDLING = "raised while handling "
_IN_WORKER = re.compile(r"Caught (\w+) in DataLoader worker process (\d+)\.\s+Original Traceback")
_WORKERS_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+), in ', re.M)
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x1f\x7f-\x9f]")

_UNSTABLE = (
    (re.compile(r"\[enforce fail at \S+\] .*?\. "), ""),  # where in PyTorch's C++ source, and its condition
    (re.compile(r"\[/\S+?\.(?:cc|cpp|h):\d+\] "), ""),
    (re.compile(r"0x[0-9a-f]{4,}"), "0x…"),
    (re.compile(r"(\d+\.\d+\.\d+\.\d+|localhost)\]?:\d+(\$\d+)?"), r"\1:…"),
    (re.compile(r"\b(pid|port:?) \d+"), r"\1 …"),
    (re.compile(r"(?<=\w/)\.ddp_course/runs/\d+"), ".ddp_course/runs/…"),
)


@dataclass
class End:
    """How one rank ended, in its last attempt."""

    rank: int
    attempt: Attempt

    @property
    def code(self) -> int | None:
        return self.attempt.exit_code

    @cached_property
    def error(self) -> dict[str, Any] | None:
        """The exception that ended it; SystemExit too."""
        found = self.attempt.json("error")
        return found if isinstance(found, dict) and "type" in found else None

    @cached_property
    def stderr(self) -> str:
        """The last 64 KiB of what it wrote on stderr."""
        try:
            with open(self.attempt.path("err"), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
                return file.read().decode(errors="replace")
        except OSError:
            return self.attempt.text("err")[-_TAIL:]

    @property
    def raised(self) -> bool:
        """Whether an exception ended it, other than a wish to exit."""
        return self.error is not None and self.error["type"] != "SystemExit"

    @property
    def text(self) -> str:
        """What the table of causes is searched with."""
        if self.error is not None and self.raised:
            origins = [said.removeprefix(_ORIGIN) for said in self.related if said.startswith(_ORIGIN)]
            return "\n".join([f"{self.error['type']}: {self.error['message']}", *origins])
        return self.stderr

    @property
    def related(self) -> list[str]:
        """What else its traceback tells: notes, what the exception was raised from, what a group holds, and where in
        the learner's code a DataLoader worker raised it."""
        error = self.error or {}
        inside = []
        if _IN_WORKER.match(message := str(error.get("message", ""))):
            frames = [(found["file"], int(found["line"])) for found in _WORKERS_FRAME.finditer(message)]
            file, line = next((frame for frame in reversed(frames) if not is_library(frame[0])), ("", 0))
            inside = [f"raised in the worker at {os.path.basename(file)}, line {line}:  {source(file, line)}"] * bool(
                line
            )
        return [*inside, *(str(said) for said in error.get("related", []))]

    @property
    def caught(self) -> str:
        """The exception in whose `except` it ended itself; '' where there was none."""
        if self.error is None or self.raised:
            return ""
        return next((said.removeprefix(_HANDLING) for said in self.related if said.startswith(_HANDLING)), "")

    @property
    def when(self) -> int:
        """When it failed, in ns since the epoch."""
        return int(self.error["time_ns"]) if self.error else self.attempt.ended_ns

    @cached_property
    def frames(self) -> list[Frame]:
        """Where it stood when it ended, innermost first: its traceback, or what faulthandler wrote."""
        if self.error:
            return error_frames(self.error)
        return main_thread(self.attempt.text("stacks")) or main_thread(self.stderr)

    @property
    def place(self) -> Frame | None:
        return learners(self.frames)

    @cached_property
    def status(self) -> str:
        """alive, done (exit code 0), failed (its own doing), timed out, lost (a connection), ended (by the agent)."""
        if self.code == 0 or (self.code is None and not self.raised):
            return "done" if self.code == 0 else "alive"
        if self.raised:
            return self._of_exception()
        if self.code in (-15, -2):
            return "ended"
        why = self.stderr if self.code == -6 else self.caught
        if causes.TIMED_OUT.search(why):
            return "timed out"
        if causes.LOST_CONNECTION.search(why):
            return "lost"
        return "failed"

    def _of_exception(self) -> str:
        assert self.error is not None
        if self.error["type"] in ("KeyboardInterrupt", "SignalException"):
            return "ended"
        if self.error["type"] in _TORCHS_OWN or any(said.startswith(_ORIGIN) for said in self.related):
            if causes.TIMED_OUT.search(self.text):
                return "timed out"
            if causes.LOST_CONNECTION.search(self.text):
                return "lost"
        return "failed"

    @property
    def signature(self) -> tuple[Any, ...]:
        """Ranks that failed in the same way have the same."""
        if self.error:
            return (self.error["type"], self.place)
        return (self.code, self.place)


def ends(run: Run) -> list[End]:
    """How each rank ended in the last attempt; ranks that never started are left out."""
    found = [End(rank.rank, rank.attempts[-1]) for rank in run.last_attempt]
    failed = [end.when for end in found if end.status == "failed" and end.when]
    for end in found:
        # The agent's own SIGKILL, for a rank that did not heed its SIGTERM.
        late = failed and end.when > min(failed) + _AGENT_PATIENCE * 1e9
        if end.code == -9 and end.status == "failed" and late:
            end.__dict__["status"] = "ended"
    if run.outcome == "failed" and all(end.status in ("ended", "done", "alive") for end in found):
        _first_of_the_ended(found)
    elif run.outcome == "failed" and not any(end.status == "failed" for end in found):
        _interrupted_itself(found)
    return found


def _first_of_the_ended(found: list[End]) -> None:
    """No rank failed otherwise: the agent ended the others, with SIGTERM, because one had been ended by a signal."""
    ended = [end for end in found if end.status == "ended"]
    for end in ended:
        if end.code != -15 or end.when == min(other.when for other in ended):
            end.__dict__["status"] = "failed"


def _interrupted_itself(found: list[End]) -> None:
    """Nobody interrupted the run, and a rank ended with KeyboardInterrupt before the others lost their connection."""
    first = min((end.when for end in found if end.when), default=0)
    for end in found:
        if end.error and end.error["type"] == "KeyboardInterrupt" and end.when == first:
            end.__dict__["status"] = "failed"


def names(ranks: Sequence[int], total: int = 0) -> str:
    """`rank 1`, `ranks 0 and 2`; of as many as `total`: `both ranks`, `all 4 ranks`."""
    if total > 1 and len(ranks) == total:
        return "both ranks" if total == 2 else f"all {total} ranks"
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def on_nodes(run: Run, ranks: Sequence[int]) -> str:
    """`ranks 2 and 3 on node 1`: with the node, where there are several and all these ranks are on one."""
    said = names(ranks, len(run.ranks))
    nodes = {rank.node for rank in run.ranks if rank.rank in ranks}
    return f"{said} on node {nodes.pop()}" if run.nodes.several and len(nodes) == 1 else said


def clean(message: str, most: int = 240) -> str:
    """An error message in one line, without what changes from run to run (addresses, ports, process ids)."""
    message = message[:20_000]
    if found := _IN_WORKER.match(message):  # with the worker's whole traceback in it
        last = message.strip().splitlines()[-1].removeprefix(f"{found[1]}: ")
        message = f"{last} (in DataLoader worker {found[2]})"
    text = _CONTROL.sub("", re.sub(r"\s+", " ", message)).strip()
    text = text.encode(errors="backslashreplace").decode()  # half a surrogate pair can be shown nowhere
    for pattern, replacement in _UNSTABLE:
        text = pattern.sub(replacement, text)
    if len(text) <= most:
        return text
    end = text.find(". ", 20, most)
    return f"{text[: end + 1]} …" if end > 0 else text[: most - 1].rstrip() + "…"
