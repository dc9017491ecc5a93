"""A process that checks answers for `ddp-course check`, one after the other, within limits.

`Grader` is its handle. The process itself, `python -m ddp_course.exercises.grader`, takes one JSON line an answer and
gives one back. Its limits are inherited by the ranks it starts; what a rank leaves behind becomes its child.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import selectors
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_OUTPUT = 64 << 20  # bytes of one file that a rank writes
_START = 120.0  # seconds a new process has to get ready, however busy the machine is


@dataclass(frozen=True)
class Limits:
    """Of one answer: seconds in all, and bytes of memory for each of its ranks."""

    seconds: float
    memory: int


class Grader:
    """The handle. `grade()` starts the process where there is none, and ends it where an answer takes too long."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def grade(self, name: str, cell: str, seed: int) -> dict[str, str]:
        """{"state", "text"} of an answer; state stopped where it ran past its limits or ended its grader."""
        self._start()
        request = json.dumps({"name": name, "cell": cell, "seed": seed})
        try:
            reply = self._ask(request, self._limits.seconds)
        except OSError:
            reply = None
        if reply:
            return dict(json.loads(reply))
        self.close()
        return {"state": "stopped", "text": f"! {name} · stopped: no result within {self._limits.seconds:g} s."}

    def _start(self) -> None:
        if self._process and self._process.poll() is None:
            return
        self.close()
        self._folder = tempfile.TemporaryDirectory(prefix="ddp-course-check-", ignore_cleanup_errors=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ddp_course.exercises.grader", str(self._limits.memory)],
            cwd=self._folder.name,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._ask("", _START)

    def _ask(self, line: str, seconds: float) -> bytes | None:
        """Send a line, wait for one. None where none comes in time."""
        process = self._process
        assert process and process.stdin and process.stdout
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        reply, deadline = b"", time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not reply.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                if not (data := os.read(process.stdout.fileno(), 1 << 16)):
                    return None
                reply += data
        return reply

    def close(self) -> None:
        """End the process and everything it started."""
        if self._process:
            try:
                end_all(psutil.Process(self._process.pid).children(recursive=True))
            except psutil.NoSuchProcess:
                pass
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    try:
                        pipe.close()
                    except OSError:
                        pass  # what was still to be written has no reader
            self._process = None
        if self._folder:
            self._folder.cleanup()
            self._folder = None


def end_all(processes: list[psutil.Process]) -> None:
    """Kill each of these processes that is still there."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def main() -> None:
    """Answer requests until the other side closes."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    memory = int(sys.argv[1])
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, _OUTPUT)]
    limits += [(resource.RLIMIT_DATA, memory)] if sys.platform == "linux" else []
    for which, value in limits:
        resource.setrlimit(which, (value, value))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)

    from ddp_course.exercises.check import wait_for_server

    wait_for_server()
    for line in sys.stdin:
        reply = _reply(json.loads(line)) if line.strip() else {}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _reply(request: dict[str, Any]) -> dict[str, str]:
    from ddp_course.errors import LaunchError
    from ddp_course.exercises import find
    from ddp_course.exercises.answers import answer

    kept = set(psutil.Process().children())  # the server; whatever else there is afterwards, an answer left behind
    try:
        result = answer(find(request["name"]), request["cell"], seeds=[request["seed"]])
        return {"state": result.state, "text": result.text}
    except (LaunchError, OSError, RecursionError, MemoryError) as error:
        return {"state": "failed", "text": f"✗ {request['name']} · {error}"}
    finally:
        left = [process for process in psutil.Process().children(recursive=True) if not _belongs(process, kept)]
        end_all(left)


def _belongs(process: psutil.Process, kept: set[psutil.Process]) -> bool:
    try:
        return process in kept or any(parent in kept for parent in process.parents())
    except psutil.NoSuchProcess:
        return True


if __name__ == "__main__":
    main()
