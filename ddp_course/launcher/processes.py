"""Ending every process of a run. Each rank leads a session of its own, so sessions find its children too."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Collection

import psutil

# `python -m` would look for every module in the current folder first, where a learner may have a random.py.
_RUN = "import sys; del sys.path[: sys.path[0] == '']; import runpy; runpy.run_module({!r}, None, '__main__', True)"


def program(module: str) -> list[str]:
    """The command that runs a module of this package, whatever lies in the current folder."""
    return [sys.executable, "-c", _RUN.format(module)]


def end_sessions(leaders: Collection[int], since: float, seconds: float = 2.0) -> None:
    """Kill (SIGKILL) every process in the sessions led by `leaders` and wait until they are gone.

    A process older than `since` (seconds since the epoch) is not of the run: its number was used again.
    Waits at most `seconds`; a process in uninterruptible sleep can outlast that.
    """
    deadline = time.monotonic() + seconds
    while (alive := _members(set(leaders), since)) and time.monotonic() < deadline:
        for process in alive:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
            except PermissionError:
                continue
        time.sleep(0.01)


def end_adopted(keep: Collection[int]) -> None:
    """Kill the children of this process that are not in `keep`, and all below them.

    For a process that adopts orphans (a child subreaper): they are what a run left in sessions of its own.
    """
    for child in psutil.Process().children():
        if child.pid not in keep:
            for process in [*_descendants(child), child]:
                try:
                    process.kill()
                except psutil.Error:
                    continue


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _members(leaders: set[int], since: float) -> list[int]:
    found = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) not in leaders or pid == os.getpid():
                continue
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE and process.create_time() >= since - 2:
                found.append(pid)
        except (psutil.Error, OSError):
            continue
    return found


def state(pid: int) -> str:
    """One letter as in `ps`: R running, S asleep, D waiting for a device, T stopped, Z ended; '' if gone."""
    if sys.platform != "linux":
        return ""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
