"""What the ranks of a run that hangs can still tell, taken just before they are ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from ddp_course import processes, worker
from ddp_course.run import Attempt

_SECONDS = 1.0  # a rank that is stuck in C++ code and holds the GIL writes its stack, but never its collectives


def collect(attempts: Iterable[Attempt]) -> None:
    """Have every live rank write its Python stacks and its last collectives; wait at most a second for them.

    A rank that was stopped (SIGSTOP) is marked and goes on, so that it can answer.
    """
    asked = [attempt for attempt in attempts if attempt.exit_code is None and attempt.path("stacks").exists()]
    for attempt in asked:
        attempt.stopped = processes.state(attempt.pid) in ("T", "t")
        try:
            os.kill(attempt.pid, worker.stack_signal())
            _ask(attempt.path("ask"))
            if attempt.stopped:
                os.kill(attempt.pid, signal.SIGCONT)
        except OSError:
            continue  # it ended just now
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and not all(map(_answered, asked)):
        time.sleep(0.01)


def _ask(pipe: Path) -> None:
    fd = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(fd, b"x")
    finally:
        os.close(fd)


def _answered(attempt: Attempt) -> bool:
    if sys.platform == "linux" and not processes.state(attempt.pid):
        return True
    return bool(attempt.text("stacks")) and attempt.path("collectives").exists()
