"""torchrun's own agent for one node, with two things added: ranks are forked from a process that has
already imported torch (warm), and every start and end of a rank is told to the launcher.

Cold, it is a program: `ddp_course.launcher.agent EVENTS TORCHRUN_OPTIONS worker.py SCRIPT [ARGS]`, with EVENTS a file
descriptor, or a file in a folder that another machine reads too.
Warm, the server forks a child that calls `main`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, ClassVar

from ddp_course.launcher import worker

SIGNALLED = 128  # added to the number of the signal that ended the agent, as a shell does
_PATIENCE = 3  # seconds a rank has to end after SIGTERM; torchrun's own 30 are too long to sit before a notebook
_GRACE = 0.5  # seconds between the first failure and the end of the other ranks


class RankProcess:
    """One rank as a child process; what torchrun's agent needs of a `subprocess.Popen`."""

    _all: ClassVar[list[RankProcess]] = []

    def __init__(self, pid: int, rank: int, attempt: int, tell: Callable[..., None]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._rank, self._attempt, self._tell = rank, attempt, tell
        self._all.append(self)
        tell(event="rank", rank=rank, attempt=attempt, pid=pid)

    def poll(self) -> int | None:
        if self.returncode is None and self._reap() not in (None, 0, -signal.SIGTERM, -signal.SIGINT):
            self._wait_for_others()
        return self.returncode

    def _wait_for_others(self) -> None:
        """After the first failure: the ranks that are about to fail too get the time to say why."""
        others = [other for other in self._all if other._attempt == self._attempt and other is not self]
        if any(other.returncode for other in others):
            return  # not the first
        deadline = time.monotonic() + _GRACE
        while any(other._reap() is None for other in others) and time.monotonic() < deadline:
            time.sleep(0.005)

    def _reap(self) -> int | None:
        if self.returncode is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                unit = 1 if sys.platform == "darwin" else 1024
                self._tell(
                    event="exit",
                    rank=self._rank,
                    attempt=self._attempt,
                    code=self.returncode,
                    peak_bytes=usage.ru_maxrss * unit,
                    time_ns=time.time_ns(),
                )
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._reap() is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired("rank", timeout or 0.0)
            time.sleep(0.005)
        assert self.returncode is not None
        return self.returncode


def main(arguments: list[str], events_fd: int, warm: bool) -> int:
    """Run torchrun's `main` with `arguments`. Returns its exit code: 0 where every rank ended with 0."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing import api
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    from ddp_course.launcher import rendezvous

    of_torch = api.get_subprocess_handler, api.SubprocessContext._close

    def close_soon(context: api.SubprocessContext, death_sig: signal.Signals, timeout: int = 30) -> None:
        of_torch[1](context, death_sig, min(timeout, _PATIENCE))

    def tell(**event: Any) -> None:
        os.write(events_fd, (json.dumps(event) + "\n").encode())

    class RankHandler(SubprocessHandler):
        def _popen(self, args: tuple, env: dict[str, str]) -> Any:
            pid = _fork(args, env, restore) if warm else _spawn(args, env)
            rank, attempt = int(env["RANK"]), int(env[worker.ATTEMPT_VARIABLE])
            return RankProcess(pid, rank, attempt, tell)

    def restore() -> None:
        """A rank that starts agents itself finds torch as it is."""
        api.get_subprocess_handler, api.SubprocessContext._close = of_torch  # type: ignore[method-assign]
        rendezvous.agent_forks = False

    rendezvous.agent_forks = warm
    # torchrun makes its workers through this name.
    api.get_subprocess_handler = RankHandler  # type: ignore[assignment]
    api.SubprocessContext._close = close_soon  # type: ignore[assignment, method-assign]
    try:
        run.main(arguments)
    except api.SignalException as error:
        return SIGNALLED + int(error.sigval)
    except ChildFailedError as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    finally:
        rendezvous.end_stores()
    return 0


def _spawn(args: tuple, env: dict[str, str]) -> int:
    process = subprocess.Popen(args, env=env, start_new_session=True)
    process.returncode = 0  # RankProcess reaps it; Popen must not
    return process.pid


def _fork(args: tuple, env: dict[str, str], restore: Callable[[], None]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        restore()
        _become_new_process(env)
        worker.close_files_but()
        separator = args.index(worker.__file__)
        worker.main([str(a) for a in args[separator + 1 :]])
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _become_new_process(env: dict[str, str]) -> None:
    """Undo what a forked rank knows of the server and the agent, so that it cannot be told from a new one."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(env)
    random.seed()
    numpy, torch = sys.modules["numpy"], sys.modules["torch"]
    numpy.random.seed()
    torch.default_generator.seed()  # drawn once when torch was imported: all forked ranks would share it
    first = env.get("OMP_NUM_THREADS", "").split(",")[0].strip()  # a list has a number for each level of nesting
    threads = int(first) if first.isdecimal() and int(first) else torch.get_num_threads()
    if threads != torch.get_num_threads():  # even setting the same number starts threads
        torch.set_num_threads(threads)
    torch.distributed.set_debug_level_from_env()


if __name__ == "__main__":
    worker.die_with_parent()
    where = sys.argv[1]
    events = int(where) if where.isdecimal() else os.open(where, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    code = main(sys.argv[2:], events, warm=False)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # taking torch down in good order takes half a second and serves nobody
