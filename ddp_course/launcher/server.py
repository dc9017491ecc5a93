"""The process between the notebook and the agents: the program `ddp_course.launcher.server FD [--warm]`.

Warm, it has imported torch and torchrun but has run no tensor operation and started no thread, so that
forking it is safe. It serves one notebook. Each run comes with a socket of its own; when that socket or the
server's own closes, however the notebook ended, every process of the run is killed.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ddp_course.launcher import agent, processes, worker

_PR_SET_CHILD_SUBREAPER = 36  # ranks whose agent was killed become the server's children, not init's


@dataclass
class _Run:
    """One run: its socket to the notebook, its agents, the sessions to end."""

    socket: socket.socket
    agents: dict[int, int] = field(default_factory=dict)  # pid → node
    sessions: dict[int, set[int]] = field(default_factory=dict)  # node → leaders
    since: float = field(default_factory=time.time)
    kill_at: float | None = None

    def tell(self, **message: Any) -> None:
        try:
            self.socket.sendall((json.dumps(message) + "\n").encode())
        except OSError:
            pass  # the notebook is gone; its end is noticed by the next read


class Server:
    """Starts agents on request and ends them. One thread, one selector."""

    def __init__(self, control: socket.socket, warm: bool) -> None:
        self._control = control
        self._warm = warm
        self._runs: list[_Run] = []
        self._parent = os.getppid()
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, self._accept)
        self._wake, wake = socket.socketpair()
        wake.setblocking(False)
        self._wake.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self._wake_write = wake
        self._selector.register(self._wake, selectors.EVENT_READ, self._drain_wake)

    def serve(self) -> None:
        """Serve until the notebook closes its socket or ends."""
        while self._control is not None and os.getppid() == self._parent:
            pending = [run.kill_at for run in self._runs if run.kill_at is not None]
            timeout = min([1.0, *(max(0.0, at - time.monotonic()) for at in pending)])
            for key, _ in self._selector.select(timeout):
                key.data()
            self._reap()
            for run in [r for r in self._runs if r.kill_at is not None and r.kill_at <= time.monotonic()]:
                self._end(run)
        for run in list(self._runs):
            self._end(run)

    def _drain_wake(self) -> None:
        self._wake.recv(4096)

    def _accept(self) -> None:
        message, fds, _, _ = socket.recv_fds(self._control, 1, 1)
        if not message:
            self._control = None  # type: ignore[assignment]
            return
        run = _Run(socket.socket(fileno=fds[0]))
        self._runs.append(run)
        buffer = bytearray()
        self._selector.register(run.socket, selectors.EVENT_READ, lambda: self._request(run, buffer))

    def _request(self, run: _Run, buffer: bytearray) -> None:
        try:
            data = run.socket.recv(1 << 20)
        except OSError:
            data = b""
        if not data or self._abandoned(run):
            self._end(run)
            return
        buffer.extend(data)
        while (end := buffer.find(b"\n")) >= 0:
            request = json.loads(buffer[:end])
            del buffer[: end + 1]
            if request["do"] == "start":
                for job in request["agents"]:
                    self._start(run, job)
            elif request["do"] == "stop":
                self._stop(run, request["grace"])

    def _abandoned(self, run: _Run) -> bool:
        """Whether the notebook has closed the run's socket already, behind what it sent."""
        try:
            return not run.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False

    def _start(self, run: _Run, job: dict[str, Any]) -> None:
        node = job["node"]
        events, events_write = os.pipe()
        try:
            pid = (self._fork if self._warm else self._spawn)(job, events_write)
        finally:
            os.close(events_write)
        run.agents[pid] = node
        run.sessions.setdefault(node, set()).add(pid)
        run.tell(event="agent", node=node, pid=pid)
        stream = os.fdopen(events, "rb", buffering=0)
        buffer = bytearray()
        self._selector.register(stream, selectors.EVENT_READ, lambda: self._event(run, node, stream, buffer))

    def _event(self, run: _Run, node: int, stream: Any, buffer: bytearray) -> None:
        data = stream.read(1 << 16)
        if not data:
            self._selector.unregister(stream)
            stream.close()
            return
        buffer.extend(data)
        while (end := buffer.find(b"\n")) >= 0:
            event = json.loads(buffer[:end])
            del buffer[: end + 1]
            if event["event"] == "rank":
                run.sessions[node].add(event["pid"])
            run.tell(node=node, **event)

    def _spawn(self, job: dict[str, Any], events_fd: int) -> int:
        with open(job["log"], "ab") as log:
            process = subprocess.Popen(
                [*job["enter"], *processes.program("ddp_course.launcher.agent"), str(events_fd), *job["arguments"]],
                env=job["env"],
                cwd=job["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[events_fd],
                start_new_session=True,
            )
        process.returncode = 0  # reaped by _reap; Popen must not
        return process.pid

    def _fork(self, job: dict[str, Any], events_fd: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            os.setsid()
            self._become_agent(job, events_fd)
            code = agent.main(job["arguments"], events_fd, warm=True)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _become_agent(self, job: dict[str, Any], events_fd: int) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        worker.die_with_parent()
        self._selector.close()
        for run in self._runs:
            run.socket.close()
        for sock in (self._control, self._wake, self._wake_write):
            sock.close()
        log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.chdir(job["cwd"])
        os.environ.clear()
        os.environ.update(job["env"])

    def _stop(self, run: _Run, grace: float) -> None:
        """Ask the agents to end as Ctrl-C does; kill what is left after `grace` seconds. 0: kill at once."""
        for pid in run.agents if grace else ():
            try:
                os.kill(pid, signal.SIGINT)
            except ProcessLookupError:
                continue
        run.kill_at = time.monotonic() + grace

    def _reap(self) -> None:
        """Take in what has ended: agents, and processes of a run whose parent ended before them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for run in [run for run in self._runs if pid in run.agents]:
                node = run.agents.pop(pid)
                self._drain_events()
                if run.agents:  # a node that is lost takes all its processes with it
                    processes.end_sessions(run.sessions[node], run.since)
                run.tell(event="agent_exit", node=node, code=os.waitstatus_to_exitcode(status))
                if not run.agents:
                    self._end(run)

    def _drain_events(self) -> None:
        """What an agent said last is still in its pipe when it is gone."""
        for key, _ in self._selector.select(0):
            if not isinstance(key.fileobj, socket.socket):
                key.data()

    def _end(self, run: _Run) -> None:
        if run not in self._runs:
            return
        self._runs.remove(run)
        processes.end_sessions(set().union(*run.sessions.values()), run.since)
        if sys.platform == "linux":
            processes.end_adopted({pid for other in self._runs for pid in other.agents})
        self._reap()
        run.tell(event="end")
        self._selector.unregister(run.socket)
        run.socket.close()


def _preload() -> None:
    import gc

    import torch._dynamo
    import torch.distributed.elastic.multiprocessing.errors
    import torch.distributed.run
    import torch.nn.parallel
    import torch.utils.data  # noqa: F401

    from ddp_course.launcher import (
        reporting,  # noqa: F401
    )

    gc.collect()
    gc.freeze()


def main() -> NoReturn:
    control = socket.socket(fileno=int(sys.argv[1]))
    warm = "--warm" in sys.argv
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if warm:
        _preload()
    Server(control, warm).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
