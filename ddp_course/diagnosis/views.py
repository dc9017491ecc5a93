"""Where each rank stood at the end, from its stack and its flight recorder, and how that is said."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ddp_course.diagnosis.code import Frame, learners, main_thread, shown, source
from ddp_course.diagnosis.collectives import Call, Recorded
from ddp_course.diagnosis.who import End, names
from ddp_course.launcher.run import Run

_C10D = "torch/distributed/distributed_c10d.py"
_WAIT = re.compile(r"\.wait(_all)?\(")
# gloo records none of these: a recorded call of a rank that is in one of them is an older one.
_UNRECORDED = {"send", "recv", "isend", "irecv", "wait", "monitored_barrier", "batch_isend_irecv"}


@dataclass(frozen=True)
class View:
    """Where one rank stood."""

    rank: int
    state: str  # waits, stopped, ended (by itself, exit code 0), elsewhere, unknown
    frames: tuple[Frame, ...]
    call: Call | None
    op: str = ""

    @property
    def place(self) -> Frame | None:
        """The learner's line."""
        own = learners(self.frames)
        if own is None and self.state == "waits" and self.call and self.call.file:
            return Frame(self.call.file, self.call.line, "")
        return own

    @property
    def what(self) -> str:
        """`all_reduce #14 (float32, 1,024 elements)`, or the function's name where the call is not recorded."""
        return str(self.call) if self.call else self.op

    @property
    def waits_for_one(self) -> bool:
        """Whether it waits for one other rank (send, recv), not for its whole group."""
        return self.state == "waits" and self.call is None and self.op in _UNRECORDED - {"monitored_barrier"}


def view(end: End, record: Recorded | None) -> View:
    """Where the rank stood, from its stack (or its traceback) and its flight recorder."""
    if end.status == "done":
        return View(end.rank, "ended", tuple(end.frames), record.last if record else None)
    alive = end.status == "alive"
    frames = tuple(main_thread(end.attempt.text("stacks")) if alive else end.frames)
    op = _operation(frames)
    call = None
    if record and op not in _UNRECORDED:
        call = record.waiting if alive else record.last if end.status in ("timed out", "lost") else None
    if end.attempt.stopped:
        return View(end.rank, "stopped", frames, call, op)
    if call or op:
        return View(end.rank, "waits", frames, call, op)
    return View(end.rank, "elsewhere" if frames else "unknown", frames, None)


def _operation(frames: tuple[Frame, ...]) -> str:
    """The function of torch.distributed that the rank is in; '' where it is in none."""
    own = learners(frames)
    inside = frames[: frames.index(own)] if own else frames
    for frame in reversed(inside):
        if frame.file.endswith(_C10D) and not frame.name.startswith("_") and frame.name != "wrapper":
            return frame.name
    if own and not inside and _WAIT.search(source(own.file, own.line) or ""):
        return "wait"
    return ""


def phrases(group: list[View], run: Run, main: Frame | None, missed: bool = False, past: bool = False) -> list[str]:
    """One phrase for each set of ranks that have the same to say: `ranks 0 and 2 wait in barrier #3 at line 7`.

    `main` is the line shown below: other lines are named with their file where that is another one. `missed`:
    others waited for these ranks. `past`: the ranks have ended since.
    """
    said: dict[tuple[str, str], list[int]] = {}
    for one in group:
        said.setdefault(_phrase(one, run, main, missed, past), []).append(one.rank)
    return [f"{names(ranks)} {singular if len(ranks) == 1 else plural}" for (singular, plural), ranks in said.items()]


def _phrase(one: View, run: Run, main: Frame | None, missed: bool, past: bool) -> tuple[str, str]:
    """Singular and plural."""
    where = ""
    if place := one.place:
        file = "" if main is None or place.file == main.file else f"{shown(place.file, run.cwd)}, "
        where = f" at {file}line {place.line}"
    is_, are = ("was", "were") if past else ("is", "are")
    if one.state == "ended":
        return (f"had already ended with exit code 0{where}",) * 2
    if one.state == "stopped":
        return f"{is_} stopped (SIGSTOP){where}", f"{are} stopped (SIGSTOP){where}"
    if one.state == "waits" and not missed:
        wait, waits = ("waited", "waited") if past else ("wait", "waits")
        return f"{waits} in {one.what}{where}", f"{wait} in {one.what}{where}"
    if one.state == "unknown":
        return "did not say where it was", "did not say where they were"
    if not where and one.state == "elsewhere":
        where = " in none of your lines: before the script, or after it, in a thread or a function of atexit"
    inside = f", in {one.what}" if one.state == "waits" else ""
    if missed:
        return f"never came: it {is_}{where}{inside}", f"never came: they {are}{where}{inside}"
    return f"{is_}{where}", f"{are}{where}"
