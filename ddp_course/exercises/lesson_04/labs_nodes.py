"""Lesson 4, break-it lab: machines that are each started as told, and do not find each other."""

from __future__ import annotations

import random
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Lab, Option, Question
from ddp_course.exercises.compare import show
from ddp_course.exercises.lesson_04 import agents
from ddp_course.launcher.nodes import C10D_PORT, STATIC_PORT, is_loopback
from ddp_course.launcher.options import RENDEZVOUS

_SCRIPT = "train.py"
_TELL = 'echo "$RANK $WORLD_SIZE" > "$0/$RANK"'


class EachAlone(Lab):
    """A meeting place that is another one on each machine."""

    name = "each_alone"
    lesson, section = "04", 3
    title = "both machines wait"
    minutes, difficulty = 6, 2
    tested = "the lines of two and of three machines, each started by an agent of its own"
    worlds = (1,)
    patience = 2.0
    options = "--nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint localhost:0 --timeout 3 --lab"
    broken = """\
import torch.distributed as dist

dist.init_process_group("gloo")
print("we have met")
dist.destroy_process_group()
"""
    question = Question(
        "The same line was started on both machines at the same time. Why does no rank start on either?",
        (
            Option(
                "Each needs its own --node-rank",
                "Under static rendezvous it does. With c10d the agents agree on the numbers, once they have met.",
            ),
            Option(
                "On each machine init_process_group waits for the ranks of the other one, and cannot reach them",
                "No rank exists yet, so not one line of the script has run. It is the agents that wait.",
            ),
            Option(
                "On each machine, localhost is that machine: two meeting places, with one agent at each",
                "Yes. Each serves a store of its own, on any port that is free (0), and waits there for a second node. "
                "The endpoint must name one machine for all, and a port that they know.",
            ),
            Option(
                "A firewall keeps the port closed",
                "No agent has tried to reach another machine: neither line names one.",
            ),
        ),
        "c",
    )
    stub = '''\
def lines(hosts, nproc):
    """hosts: the machines of one job, such as ["gpu-a", "gpu-b", "gpu-c"]. They know each other by these names.

    Returns what to type on each of them, in this order: a list of lines, each a list of words, ["torchrun", …,
    "train.py"]. Together they start one job, with nproc ranks on each machine.
    """
    raise NotImplementedError
'''
    hints = (
        "What must be the same on all machines, and which machine can all of them name?",
        "With c10d one line does for all: how many nodes, how many ranks on each, and an endpoint at one of the hosts.",
        "--nnodes=…, --nproc-per-node=…, --rdzv-backend=c10d and --rdzv-endpoint=HOST:29400, with the first host.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        cases = []
        for many in (2, 3):
            hosts = [f"gpu-{letter}" for letter in sorted(pick.sample("abcdefghk", many))]
            said = f"{', '.join(hosts[:-1])} and {hosts[-1]}"
            cases.append({"hosts": hosts, "nproc": pick.randint(1, 2), "what": f"· a job on {said}"})
        return cases

    def expected(self, case: Case, rank: int) -> Any:
        return {}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        typed = plain(answer.lines(list(case["hosts"]), case["nproc"]))
        return _misspelt(typed, case["hosts"]) or _apart(typed, case) or _start(typed, case)

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        return None if seen[0] == "started" else str(seen[0])


def _misspelt(typed: Any, hosts: list[str]) -> str | None:
    """Why these are no lines for torchrun."""
    if not isinstance(typed, list) or not all(isinstance(line, list) for line in typed):
        return f"you returned {show(typed)}, and not a list of lines, each a list of words."
    if len(typed) != len(hosts):
        return f"there are {len(hosts)} machines; you returned {len(typed)} line{'s' * (len(typed) != 1)}."
    for host, line in zip(hosts, typed, strict=True):
        if not all(isinstance(word, str) for word in line):
            return f"on {host}: a line is a list of strings; you returned {show(line)}."
        if line[:1] != ["torchrun"] or line[-1] != _SCRIPT:
            return f"on {host}: the first word is torchrun and the last one {_SCRIPT}."
        try:
            agents.parse(line[1:])
        except ValueError as error:
            return f"on {host}, torchrun says: {error}"
    return None


def _apart(typed: list[list[str]], case: Case) -> str | None:
    """Why these lines do not become one job."""
    hosts = case["hosts"]
    nodes = [agents.parse(line[1:]) for line in typed]
    for host, node in zip(hosts, nodes, strict=True):
        if node.standalone:
            return f"on {host}: --standalone is for a machine that meets no other."
        least, _, most = node.nnodes.partition(":")
        if (least, most or least) != (str(len(hosts)),) * 2:
            said = least if least == most else node.nnodes
            return f"on {host}: --nnodes={said}, and the job has {len(hosts)} machines."
        if node.nproc_per_node != str(case["nproc"]):
            return f"on {host}: --nproc-per-node={node.nproc_per_node}, and {case['nproc']} asked for."
    backends = {node.rdzv_backend for node in nodes}
    if len(backends) > 1 or not backends <= {"c10d", "static"}:
        return f"they meet by {' and '.join(sorted(backends))}: take c10d or static on all of them."
    return _no_place(hosts, [_endpoint(node) for node in nodes], nodes) or _no_numbers(hosts, nodes)


def _endpoint(node: Any) -> tuple[str, str]:
    """Host and port where this agent goes."""
    if node.rdzv_backend == "static" and not node.rdzv_endpoint:
        return node.master_addr, str(node.master_port)
    host, _, port = (node.rdzv_endpoint or "localhost").partition(":")
    return host, port or str(C10D_PORT if node.rdzv_backend == "c10d" else STATIC_PORT)


def _no_place(hosts: list[str], places: list[tuple[str, str]], nodes: Sequence[Any]) -> str | None:
    names = [place[0] for place in places]
    for host, name in zip(hosts, names, strict=True):
        if is_loopback(name):
            return f"on {host}, {name} is {host} itself: who goes there meets nobody."
        if name not in hosts:
            return f"on {host}: nothing is known of a machine {name}."
    if len(set(names)) > 1:
        other = next(number for number, name in enumerate(names) if name != names[0])
        return f"{hosts[0]} goes to {names[0]} and {hosts[other]} to {names[other]}: they never meet."
    ports = [port for _, port in places]
    if len(set(ports)) > 1 or ports[0] == "0":
        return f"the ports are {', '.join(ports)}: all must know the same one."
    if nodes[0].rdzv_backend == "static":
        serves = nodes[hosts.index(names[0])].node_rank
        if str(serves) != "0":
            return f"node 0 serves the store. All go to {names[0]} for it, and {names[0]} has --node-rank={serves}."
    return None


def _no_numbers(hosts: list[str], nodes: Sequence[Any]) -> str | None:
    if len({node.rdzv_id for node in nodes}) > 1:
        return "another --rdzv-id is another job."
    numbers = [int(node.node_rank) for node in nodes]
    if nodes[0].rdzv_backend == "static" and nodes[0].rdzv_endpoint and not any(numbers):
        return "without --rdzv-backend=c10d torchrun takes the static one, which wants a --node-rank on each node."
    if nodes[0].rdzv_backend == "static" and sorted(numbers) != list(range(len(hosts))):
        said = ", ".join(f"{host} is node {number}" for host, number in zip(hosts, numbers, strict=True))
        return f"{said}: each number from 0 to {len(hosts) - 1} is needed once."
    return None


def _start(typed: list[list[str]], case: Case) -> str:
    """Start all lines, with this machine in the place of each host."""
    words = []
    with tempfile.TemporaryDirectory() as folder:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        for line in typed:
            node = agents.parse(line[1:])
            meet = [f"--rdzv-backend={RENDEZVOUS}", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=job"]
            meet += [f"--rdzv-conf=rank={node.node_rank}"] * (node.rdzv_backend == "static")
            shape = [f"--nnodes={node.nnodes}", f"--nproc-per-node={node.nproc_per_node}"]
            words.append([*meet, *shape, "--no-python", "sh", "-c", _TELL, folder])
        if raised := agents.start(words):
            return f"torchrun did not start it: {raised[0]}"
        found = sorted(path.read_text().split() for path in Path(folder).iterdir())
    world = len(typed) * case["nproc"]
    if found != sorted([str(rank), str(world)] for rank in range(world)):
        return f"it started the ranks {found}, and not {world} of one job."
    return "started"
