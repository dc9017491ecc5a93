"""What srun starts on each node: it passes requests on to a server on its node, and the server's events back.

A request names the jobs of all nodes; the node takes its own. When nobody writes any more, all is ended.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ddp_course.launcher import client, evidence, worker
from ddp_course.launcher.run import Attempt

_STDIN, _STDOUT = 0, 1


class Node:
    """This node: its number, its server, and the newest attempt of each of its ranks."""

    def __init__(self, server: socket.socket) -> None:
        self._number = int(os.environ["SLURM_NODEID"])
        self._server = server
        self._folder = Path()
        self._attempts: dict[int, Attempt] = {}
        self.ended = False

    def request(self, request: dict[str, Any]) -> None:
        if request["do"] == "evidence":
            return self._evidence()
        if request["do"] == "start":
            request["agents"] = [self._here(job) for job in request["agents"] if job["node"] == self._number]
        self._send(request)

    def _send(self, request: dict[str, Any]) -> None:
        try:
            self._server.sendall((json.dumps(request) + "\n").encode())
        except OSError:
            pass  # it is gone; the next read says so

    def _here(self, job: dict[str, Any]) -> dict[str, Any]:
        self._folder = Path(job["env"][worker.FOLDER_VARIABLE])
        job["env"] = {**os.environ, **job["env"]}
        port = 20000 + int(os.environ["SLURM_JOB_ID"]) % 10000  # so that two jobs on one node do not meet
        place = [f"--rdzv-endpoint={_first_node()}:{port}", f"--local-addr={os.environ['SLURMD_NODENAME']}"]
        job["arguments"] = [*place, *(word for word in job["arguments"] if not word.startswith("--rdzv-endpoint="))]
        return job

    def event(self, event: dict[str, Any]) -> None:
        if event["event"] == "rank":
            rank, number = event["rank"], event["attempt"]
            base = self._folder / f"attempt-{number}" / f"rank-{rank}"
            self._attempts[rank] = Attempt(number, event["pid"], base)
        elif event["event"] == "exit":
            self._attempts[event["rank"]].exit_code = event["code"]
        elif event["event"] == "end":
            self.ended = True
        _tell(event)

    def _evidence(self) -> None:
        evidence.collect(self._attempts.values())
        for rank, one in self._attempts.items():
            _tell({"event": "evidence", "rank": rank, "asked_ns": one.asked_ns, "stopped": one.stopped})

    def nobody_is_left(self) -> None:
        """The notebook has gone, or has heard enough."""
        self._send({"do": "stop", "grace": 0})


def _first_node() -> str:
    return subprocess.run(["scontrol", "show", "hostnames"], capture_output=True, text=True, check=True).stdout.split()[
        0
    ]


def _tell(event: dict[str, Any]) -> None:
    try:
        os.write(_STDOUT, (json.dumps(event) + "\n").encode())
    except OSError:
        pass  # srun is gone: so is what it read from, as the next read says


def _lines(data: bytes, rest: bytearray) -> Iterator[dict[str, Any]]:
    rest += data
    while (end := rest.find(b"\n")) >= 0:
        yield json.loads(rest[:end])
        del rest[: end + 1]


def main() -> None:
    """Serve until the server on this node has nothing more to tell."""
    warm = client.can_fork()
    server = client.open_run(warm)
    node, requests, events = Node(server), bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(_STDIN, selectors.EVENT_READ)
        selector.register(server, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == _STDIN:
                    data = os.read(_STDIN, 1 << 16)
                    for request in _lines(data, requests):
                        node.request(request)
                    if not data:
                        selector.unregister(_STDIN)
                        node.nobody_is_left()
                    continue
                data = server.recv(1 << 16)
                for event in _lines(data, events):
                    node.event(event)
                if not data:
                    if not node.ended:
                        print(client.ended_early(warm), file=sys.stderr)
                    return


if __name__ == "__main__":
    main()
