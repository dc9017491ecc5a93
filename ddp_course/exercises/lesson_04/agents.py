"""Starting torchrun inside a process that has imported torch already: its own parser, its own agents.

For the side of a check that runs in a rank. Several agents at once are several threads.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

_QUICK = ["--monitor-interval=0.02", "--local-addr=127.0.0.1"]


def parse(words: Sequence[str]) -> Any:
    """torchrun's options out of the words after `torchrun`. Raises ValueError with what its parser says.

    It takes "--nnodes 2" in one word for the script's name: that is said here.
    """
    from torch.distributed import run

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed = run.parse_args([*_QUICK, *words])
    except SystemExit:
        raise ValueError(said.getvalue().strip().splitlines()[-1].partition("error: ")[2]) from None
    if parsed.training_script.startswith("-"):
        script = parsed.training_script
        raise ValueError(f"{script!r} is one word. Option and value are two words of the list, or one with = between")
    return parsed


def start(lines: Sequence[Sequence[str]]) -> list[BaseException]:
    """Start an agent for each line, the words after `torchrun`, and wait for all. Returns what they raised."""
    from torch.distributed import run

    raised: list[BaseException] = []

    def agent(parsed: Any) -> None:
        try:
            run.run(parsed)
        except BaseException as error:
            raised.append(error)

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # else each agent warns that it sets it
    ask_name_servers_once()
    agents = [threading.Thread(target=agent, args=(parse(line),), daemon=True) for line in lines]
    for thread in agents:
        thread.start()
    for thread in agents:
        thread.join()
    return raised


@contextlib.contextmanager
def stores(many: int) -> Iterator[list[int]]:
    """The ports of so many stores on 127.0.0.1, for the static rendezvous of the agents of this process.

    An agent takes the store of its process where it finds one. These outlive node 0, which may end first.
    """
    from torch.distributed import TCPStore

    def store(listener: socket.socket) -> tuple[int, TCPStore]:
        port, fd, wait = listener.getsockname()[1], listener.detach(), timedelta(seconds=30)
        options = {"wait_for_workers": False, "multi_tenant": True}
        return port, TCPStore("127.0.0.1", port, is_master=True, timeout=wait, master_listen_fd=fd, **options)

    ask_name_servers_once()
    with ThreadPoolExecutor(many) as pool:
        kept = list(pool.map(store, [socket.create_server(("127.0.0.1", 0)) for _ in range(many)]))
    yield [port for port, _ in kept]


def ask_name_servers_once() -> None:
    """For this process's new threads and for its children: PyTorch's store asks for the name of whoever connects,
    and a name server that does not answer would cost 5 seconds each time.
    """
    os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")
