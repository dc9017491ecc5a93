"""What the ranks of a run that hangs can still tell, taken just before they are ended."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ddp_course.launcher import processes, worker
from ddp_course.launcher.run import Attempt

_SECONDS = 0.5  # for each of the two questions; a rank stuck in C++ code that holds the GIL answers the second only


def collect(attempts: Iterable[Attempt]) -> None:
    """Have every live rank write its last collectives, then its Python stacks; wait at most half a second for each.

    The order matters: a signal can end a system call early, and a rank that was stopped (SIGSTOP) must go on to
    answer. What they do from then on is none of the run's story, which ends at `asked_ns`.
    """
    asked = [attempt for attempt in attempts if attempt.exit_code is None and attempt.path("stacks").exists()]
    for attempt in asked:
        attempt.asked_ns = time.time_ns()
        attempt.stopped = processes.state(attempt.pid) in ("T", "t")
    for attempt in asked:
        _ask(attempt.path("ask"))
    _wait([attempt for attempt in asked if not attempt.stopped], lambda one: one.path("collectives").exists())
    for attempt in asked:
        try:
            _signal_main_thread(attempt.pid)
            if attempt.stopped:
                os.kill(attempt.pid, signal.SIGCONT)
        except OSError:
            continue  # it ended just now
    _wait(asked, lambda one: bool(one.text("stacks")))


def _signal_main_thread(pid: int) -> None:
    """A signal for the whole process could wait until a stopped main thread has gone on to another line."""
    tgkill = getattr(ctypes.CDLL(None), "tgkill", None)
    if tgkill is None or tgkill(pid, pid, worker.stack_signal()) != 0:
        os.kill(pid, worker.stack_signal())


def _wait(asked: list[Attempt], answered: Callable[[Attempt], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and not all(answered(one) or _gone(one) for one in asked):
        time.sleep(0.01)


def _gone(attempt: Attempt) -> bool:
    return sys.platform == "linux" and not processes.state(attempt.pid)


def _ask(pipe: Path) -> None:
    try:
        fd = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return  # no rank reads it
    try:
        os.write(fd, b"x")
    finally:
        os.close(fd)
