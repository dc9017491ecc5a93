"""A torchrun rendezvous for one machine that no other machine can reach.

`torchrun --standalone` puts its store on every network interface, without authentication. This plug-in
(entry point `torchrun.handlers`, chosen with `--rdzv-backend=ddp-course-loopback`) listens on 127.0.0.1 only.
Each restart gets a new store, so that nothing of a failed attempt is found by the next one.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from datetime import timedelta

from torch.distributed import PrefixStore, TCPStore
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
)

from ddp_course.launcher.options import RENDEZVOUS

_HOST = "127.0.0.1"


class LoopbackRendezvous(RendezvousHandler):
    """One agent, one store per attempt, on 127.0.0.1 and a port the system chooses."""

    def __init__(self, run_id: str, timeout: timedelta) -> None:
        self._run_id = run_id
        self._timeout = timeout
        self._store: TCPStore | None = None

    @property
    def use_agent_store(self) -> bool:
        return True

    def get_backend(self) -> str:
        return RENDEZVOUS

    def next_rendezvous(self) -> RendezvousInfo:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind((_HOST, 0))
        listener.listen(128)
        port = listener.getsockname()[1]
        self._store = TCPStore(
            _HOST,
            port,
            is_master=True,
            timeout=self._timeout,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
        )
        store = PrefixStore(self._run_id, self._store)
        return RendezvousInfo(store, 0, 1, RendezvousStoreInfo(_HOST, port))

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


def _create(parameters: RendezvousParameters) -> RendezvousHandler:
    if parameters.max_nodes != 1:
        raise ValueError(f"{RENDEZVOUS} serves one machine; for several nodes use --rdzv-backend=c10d")
    seconds = parameters.get_as_int("timeout", 900)
    return LoopbackRendezvous(parameters.run_id, timedelta(seconds=seconds or 900))


def create_handler() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """What torchrun's plug-in point asks for: a function that makes the handler."""
    return _create
