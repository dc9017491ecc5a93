"""torchrun's rendezvous, static and c10d, with a store that no other machine can reach where none needs to.

torchrun puts its store on every network interface, without authentication. This plug-in (entry point
`torchrun.handlers`, chosen with `--rdzv-backend=ddp-course-loopback`) listens on 127.0.0.1 only, unless the
endpoint is another machine's. Each attempt gets a new store for its ranks, so that nothing of a failed attempt is
found by the next one, and its number, the same on every node, in the environment.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from torch.distributed import PrefixStore, Store, TCPStore
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    dynamic_rendezvous,
)
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend, create_backend
from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

from ddp_course.launcher import worker
from ddp_course.launcher.nodes import C10D_PORT, HERE, STATIC_PORT, is_loopback
from ddp_course.launcher.options import RENDEZVOUS
from ddp_course.launcher.worker import ATTEMPT_VARIABLE, FOLDER_VARIABLE

_store_processes: list[int] = []
agent_forks = False  # set by an agent that forks its ranks: no thread may run in it
_LOOK_AGAIN = 0.05  # seconds; torchrun's second spares a store that thousands of nodes share


class StaticRendezvous(RendezvousHandler):
    """Every node knows its rank. Node 0 serves the store; with one node, on a port that the system chooses."""

    def __init__(self, parameters: RendezvousParameters) -> None:
        self._run_id = parameters.run_id
        self._rank, self._nodes = int(parameters.config["rank"]), parameters.max_nodes
        self._timeout = timedelta(seconds=parameters.get_as_int("timeout", 900) or 900)
        self._endpoint = parameters.endpoint
        self._attempt = -1
        self._store: TCPStore | None = None
        self._newest: TCPStore | None = None

    @property
    def use_agent_store(self) -> bool:
        return True

    def get_backend(self) -> str:
        return RENDEZVOUS

    def next_rendezvous(self) -> RendezvousInfo:
        self._attempt += 1
        os.environ[ATTEMPT_VARIABLE] = str(self._attempt)
        if self._store is None:
            self._store = self._first_store()
        store = PrefixStore(f"{self._run_id}/{self._attempt}", self._store)
        host, port = self._store.host, self._store.port
        if self._attempt:
            if self._rank == 0:
                self._newest = _serve(host, 0, self._timeout)
                store.set("port", str(self._newest.port))
            port = int(store.get("port"))
        return RendezvousInfo(store, self._rank, self._nodes, RendezvousStoreInfo(host, port))

    def _first_store(self) -> TCPStore:
        if self._endpoint:
            host, port = parse_rendezvous_endpoint(self._endpoint, STATIC_PORT)
            if self._rank == 0:
                return _serve(host, port, self._timeout)
            return _connect(host, port, self._timeout)
        return _meet(self._rank == 0, self._timeout) if self._nodes > 1 else _serve(HERE, 0, self._timeout)

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        pass

    def num_nodes_waiting(self) -> int:
        return 0

    def get_run_id(self) -> str:
        return self._run_id

    def shutdown(self) -> bool:
        return True


class DynamicRendezvous(dynamic_rendezvous.DynamicRendezvousHandler):
    """c10d: nodes come in any order and may leave and return."""

    def get_backend(self) -> str:
        return RENDEZVOUS

    def next_rendezvous(self) -> RendezvousInfo:
        self._bootstrap_store_info = self._shared_tcp_store_server = None
        info = super().next_rendezvous()
        os.environ[ATTEMPT_VARIABLE] = str(self._state_holder.state.round)
        return info

    def _create_tcp_store_server(self, master_addr: str, master_port: int) -> TCPStore:
        return _serve(master_addr, master_port, timedelta(minutes=5))


def _dynamic(parameters: RendezvousParameters) -> DynamicRendezvous:
    host, port = parse_rendezvous_endpoint(parameters.endpoint or HERE, C10D_PORT)
    if is_loopback(host):
        store: Store = _meet_here(parameters, port)
        backend = C10dRendezvousBackend(store, parameters.run_id)
    else:
        backend, store = create_backend(parameters)
    timeouts = {
        name: dynamic_rendezvous._get_timeout(parameters, name) for name in ("join", "last_call", "close", "heartbeat")
    }
    handler = DynamicRendezvous.from_backend(
        parameters.run_id,
        store,
        backend,
        parameters.min_nodes,
        parameters.max_nodes,
        parameters.local_addr,
        dynamic_rendezvous.RendezvousTimeout(**timeouts),
        keep_alive_interval=parameters.get_as_int("keep_alive_interval") or 5,
        keep_alive_max_attempt=parameters.get_as_int("keep_alive_max_attempt") or 3,
    )
    # The caller's name, for an event log that nobody keeps: to find it, torch looks through every imported module.
    dynamic_rendezvous.get_method_name = lambda depth=2: ""
    if is_loopback(host):
        dynamic_rendezvous._delay = lambda seconds: time.sleep(_LOOK_AGAIN)
        handler._state_holder._cache_duration = _LOOK_AGAIN
    return handler


def _meet_here(parameters: RendezvousParameters, port: int) -> TCPStore:
    """As torchrun does it: the first agent at the endpoint serves the store, the others find the port taken."""
    timeout = timedelta(seconds=parameters.get_as_int("read_timeout", 60) or 60)
    is_host = parameters.get_as_bool("is_host")
    if not parameters.endpoint:
        return _meet(bool(is_host), timeout)
    if is_host is not False:
        try:
            return _serve(HERE, port, timeout)
        except OSError:
            if is_host:
                raise
    return _connect(HERE, port, timeout)


def _meet(host: bool, timeout: timedelta) -> TCPStore:
    """The store of nodes that share the run's folder, where the one that serves it leaves its port."""
    file = Path(os.environ[FOLDER_VARIABLE]).parent / "port"
    if host:
        store = _serve(HERE, 0, timeout)
        partial = file.with_suffix(".part")
        partial.write_text(str(store.port))
        partial.replace(file)
        return store
    deadline = time.monotonic() + timeout.total_seconds()
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError("node 0, which serves the rendezvous, did not come up")
        time.sleep(_LOOK_AGAIN)
    return _connect(HERE, int(file.read_text()), timeout)


def _connect(host: str, port: int, timeout: timedelta) -> TCPStore:
    return TCPStore(HERE if is_loopback(host) else host, port, is_master=False, timeout=timeout)


def _serve(host: str, port: int, timeout: timedelta) -> TCPStore:
    """A store on that address: on 127.0.0.1 alone where nobody else needs it, else as torchrun's, everywhere."""
    if not is_loopback(host):
        return TCPStore(host, port, is_master=True, timeout=timeout, wait_for_workers=False, multi_tenant=True)
    listener = socket.create_server((HERE, port), backlog=128)
    port = listener.getsockname()[1]
    if not agent_forks:
        return _serve_at(listener, timeout)
    _serve_in_child(listener, timeout)
    return _connect(HERE, port, timeout)


def _serve_at(listener: socket.socket, timeout: timedelta) -> TCPStore:
    port, fd = listener.getsockname()[1], listener.detach()
    return TCPStore(HERE, port, is_master=True, timeout=timeout, wait_for_workers=False, master_listen_fd=fd)


def _serve_in_child(listener: socket.socket, timeout: timedelta) -> None:
    """A process of its own for the store, which ends with this one.

    A store serves from a thread, which asks for the name of whoever connects. A rank that is forked while that
    thread holds the C library's lock for this waits for it forever when it looks up a name itself.
    """
    agent = os.getpid()
    if pid := os.fork():
        _store_processes.append(pid)
        listener.close()
        return
    try:
        worker.die_with_parent()
        worker.close_files_but(listener.fileno())
        store = _serve_at(listener, timeout)
        while store and os.getppid() == agent:
            signal.pause()
    finally:
        os._exit(1)


def end_stores() -> None:
    """End the stores that run in processes of their own."""
    while _store_processes:
        pid = _store_processes.pop()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _create(parameters: RendezvousParameters) -> RendezvousHandler:
    return StaticRendezvous(parameters) if "rank" in parameters.config else _dynamic(parameters)


def create_handler() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """What torchrun's plug-in point asks for: a function that makes the handler."""
    return _create
