"""The notebook's side of the server: starts one when needed, opens a socket to it for each run."""

from __future__ import annotations

import atexit
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict
from typing import IO, Any

from ddp_course.errors import LaunchError
from ddp_course.launcher import evidence, processes
from ddp_course.launcher.nodes import Job
from ddp_course.launcher.run import Attempt

# What a process reads once, when it starts or imports torch: a warm server with other values is out of date.
_READ_AT_START = (
    "TORCH",
    "PYTORCH",
    "PYTHON",
    "OMP_",
    "MKL_",
    "KMP_",
    "GOMP_",
    "OPENBLAS_",
    "CUDA_",
    "LD_",
    "GLOO_",
    "NCCL_",
)
# What the notebook's kernel sets for itself; a terminal would not have it, and neither has a rank.
_OF_THE_KERNEL = ("JPY_", "CLICOLOR", "FORCE_COLOR", "PYDEVD_", "GIT_PAGER")


def environment() -> dict[str, str]:
    """The environment that a terminal beside this notebook would have."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_OF_THE_KERNEL)}
    if env.get("MPLBACKEND", "").startswith("module://matplotlib_inline"):
        del env["MPLBACKEND"]
    return env


def can_fork() -> bool:
    """Whether a process that imported torch can be forked safely: on Linux."""
    return sys.platform == "linux"


class _Server:
    def __init__(self, warm: bool) -> None:
        self.owner = os.getpid()
        self.fingerprint = _fingerprint()
        self.log: IO[bytes] = tempfile.TemporaryFile()
        self.control, theirs = socket.socketpair()
        command = [*processes.program("ddp_course.launcher.server"), str(theirs.fileno())]
        env = environment()
        if warm:
            command.append("--warm")
            env["OPENBLAS_NUM_THREADS"] = "1"  # NumPy must start no thread in a process that is forked
        self.process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # an interrupt is for the notebook, not for the server
        )
        theirs.close()

    def usable(self, warm: bool) -> bool:
        same = not warm or self.fingerprint == _fingerprint()
        stopped = processes.state(self.process.pid) in ("T", "t")
        return self.owner == os.getpid() and same and self.process.poll() is None and not stopped

    def open_run(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self.control, [b"r"], [theirs.fileno()])
        finally:
            theirs.close()
        return ours

    def close(self) -> None:
        self.control.close()
        if processes.state(self.process.pid) in ("T", "t"):
            self.process.kill()  # stopped (SIGSTOP), it would not notice

    def last_words(self) -> str:
        self.log.seek(0)
        return "\n".join(self.log.read().decode(errors="replace").strip().splitlines()[-12:])


def _fingerprint() -> dict[str, str]:
    return {name: value for name, value in environment().items() if name.startswith(_READ_AT_START)}


_servers: dict[bool, _Server] = {}
_lock = threading.Lock()


def warm_up() -> None:
    """Start the warm server in the background, where forking is safe. Returns at once."""
    if can_fork():
        _server(warm=True)


def _server(warm: bool) -> _Server:
    with _lock:
        server = _servers.get(warm)
        if server is None or not server.usable(warm):
            if server is not None and server.owner == os.getpid():
                server.close()
            server = _servers[warm] = _Server(warm)
        return server


def open_run(warm: bool) -> socket.socket:
    """A socket to the server for one run: requests go in and events come out, one JSON object a line.

    Closing it ends the run. Raises LaunchError where no server can be started.
    """
    for _ in range(2):
        server = _server(warm)
        try:
            return server.open_run()
        except OSError:
            server.process.wait(5)  # it is going: the next try starts a new one
    raise ended_early(warm)


def ended_early(warm: bool) -> LaunchError:
    """What to say of a server that ended before it started anything: it could not even import torch, or was killed."""
    server = _servers[warm]
    try:
        server.process.wait(5)
    except subprocess.TimeoutExpired:
        pass  # it closed the socket and lives: its words are all there is
    words = server.last_words() or f"(none; exit code {server.process.returncode})"
    return LaunchError(
        "The process that starts the ranks ended before it started one. An environment variable that this Python or "
        f"PyTorch cannot take, or a broken installation (`ddp-course doctor`), does that. Its last words:\n{words}"
    )


class Channel:
    """Requests to what starts the agents of one run, and what it tells: one JSON object a line."""

    def __init__(self, channel: socket.socket) -> None:
        self._socket = channel
        self._buffer = b""
        self._news = select.poll()  # select.select() takes no file descriptor above 1023
        self._news.register(self._socket, select.POLLIN)

    def start(self, jobs: list[Job]) -> None:
        self._request(do="start", agents=[asdict(job) for job in jobs])

    def stop(self, grace: float) -> None:
        self._request(do="stop", grace=grace)

    def _request(self, **request: Any) -> None:
        try:
            self._socket.sendall((json.dumps(request) + "\n").encode())
        except OSError:
            pass  # the server is gone; the next read says so

    def events(self, seconds: float) -> list[dict[str, Any]] | None:
        if not self._news.poll(seconds * 1000):
            return []
        try:
            data = self._socket.recv(1 << 16)
        except OSError:
            data = b""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [json.loads(line) for line in lines] if data else None

    def close(self) -> None:
        self._socket.close()


class Agents(Channel):
    """The agents of one run, as the server on this machine starts them."""

    def __init__(self, warm: bool) -> None:
        self._warm = warm
        super().__init__(open_run(warm))

    def evidence(self, attempts: list[Attempt]) -> list[Attempt]:
        evidence.collect(attempts)
        return []

    def ended_early(self) -> LaunchError:
        return ended_early(self._warm)


@atexit.register
def _close_all() -> None:
    for server in _servers.values():
        if server.owner == os.getpid():
            server.close()
