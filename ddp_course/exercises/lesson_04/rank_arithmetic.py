"""Lesson 4, section 2: from a command line to ranks, checked against torchrun's own agents."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import show

NAMES = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE")
_TELL = f'echo {" ".join(f"${name}" for name in NAMES)} > "$0/$TORCHELASTIC_RUN_ID.$RANK"'
_SHAPES = [(nnodes, nproc) for nnodes in (1, 2, 3) for nproc in (1, 2, 3, 4) if nnodes * nproc <= 9]


class RankArithmetic(Exercise):
    """What a command line makes of a process."""

    name = "rank_arithmetic"
    lesson, section = "04", 2
    title = "predict the ranks"
    minutes, difficulty = 6, 1
    tested = "ten command lines, drawn anew each time and really run"
    worlds = (1,)
    stub = '''\
def ranks_of(nnodes, nproc_per_node, node_rank):
    """The numbers of a command line: torchrun --nnodes=2 --nproc-per-node=4 --node-rank=1 train.py

    Returns what this torchrun's processes find in their environment: for each of them, in the order of their
    local ranks, a dict with the numbers RANK, LOCAL_RANK, GROUP_RANK and WORLD_SIZE.
    """
    raise NotImplementedError
'''
    hints = (
        "How many processes does this one torchrun start, and how many ranks come before its first one?",
        "Node 0 has the first ranks, node 1 the next ones, without gaps. GROUP_RANK numbers the agents.",
        "A list with one dict for each local rank from 0 to nproc_per_node - 1. Two of the four values are the same "
        "in all of them.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        first = (2, pick.choice((3, 4)), 1)  # on which each usual mistake gives another number
        others = [shape for shape in _SHAPES if shape != first[:2]]
        return [{"lines": [first, *((n, p, pick.randrange(n)) for n, p in pick.sample(others, 9))]}]

    def expected(self, case: Case, rank: int) -> Any:
        return run_for_real(case["lines"])

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        return [plain(answer.ranks_of(*line)) for line in case["lines"]]

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        for line, right, mine in zip(case["lines"], expected, seen[0], strict=True):
            if wrong := _wrong(line, right, mine):
                nnodes, nproc, node = line
                return f"torchrun --nnodes={nnodes} --nproc-per-node={nproc} --node-rank={node}\n{wrong}"
        return None


def _wrong(line: tuple[int, int, int], right: list[dict[str, int]], mine: Any) -> str | None:
    nproc = line[1]
    if not isinstance(mine, list) or not all(isinstance(one, dict) for one in mine):
        return f"you returned {show(mine)}, and not a list of dicts."
    if len(mine) != nproc:
        return f"it starts {nproc} process{'es' * (nproc > 1)} on this node; you returned {len(mine)}."
    for local, (a, b) in enumerate(zip(right, mine, strict=True)):
        for name in NAMES:
            if name not in b:
                return f"the dict of local rank {local} has no {name}."
            if a[name] != b[name] or isinstance(b[name], (bool, str)):
                got = f"the process with local rank {local} has {name} {a[name]}   you returned {show(b[name])}"
                return "\n".join([got, *_why(name, b[name], line, local)])
    return None


def _why(name: str, got: Any, line: tuple[int, int, int], local: int) -> list[str]:
    nnodes, nproc, node = line
    known = {
        ("RANK", local): "That is the local rank. RANK goes on from node to node.",
        (
            "RANK",
            local * nnodes + node,
        ): "You deal the ranks out in turn, like cards. A node's ranks follow one another.",
        ("RANK", node * nnodes + local): "How many ranks does each node before this one have?",
        ("RANK", node * nproc + local + 1): "Ranks count from 0.",
        ("GROUP_RANK", node * nproc + local): "That is the rank. GROUP_RANK numbers the agents, one a node.",
        ("GROUP_RANK", local): "That is the local rank. GROUP_RANK numbers the agents, one a node.",
        ("WORLD_SIZE", nproc): "Those are the ranks of one node. WORLD_SIZE counts them on all nodes.",
        ("WORLD_SIZE", nnodes): "Those are the nodes. WORLD_SIZE counts ranks.",
        ("LOCAL_RANK", node * nproc + local): "That is the rank over all nodes. LOCAL_RANK starts at 0 on each node.",
    }
    if isinstance(got, str):
        return ["In the environment everything is text; here, return numbers."]
    return [known[name, got]] if (name, got) in known else []


def run_for_real(lines: list[tuple[int, int, int]]) -> list[list[dict[str, int]]]:
    """What the ranks find that torchrun starts: for each (nnodes, nproc per node, node rank), those of that node.

    All nodes of all lines are started at once, each with an agent of its own; their ranks are shells.
    """
    from ddp_course.exercises.lesson_04 import agents

    words = []
    with tempfile.TemporaryDirectory() as folder, agents.stores(len(lines)) as ports:
        for number, ((nnodes, nproc, _), port) in enumerate(zip(lines, ports, strict=True)):
            meet = ["--master-addr=127.0.0.1", f"--master-port={port}", f"--rdzv-id={number}"]
            for node in range(nnodes):
                shape = [f"--nnodes={nnodes}", f"--nproc-per-node={nproc}", f"--node-rank={node}"]
                words.append([*shape, *meet, "--no-python", "sh", "-c", _TELL, folder])
        if raised := agents.start(words):
            raise RuntimeError(f"torchrun did not start {len(raised)} of {len(words)} nodes") from raised[0]
        found = [[_read(path) for path in Path(folder).glob(f"{number}.*")] for number in range(len(lines))]
    return [
        sorted((one for one in ranks if one["GROUP_RANK"] == node), key=lambda one: one["LOCAL_RANK"])
        for ranks, (_, _, node) in zip(found, lines, strict=True)
    ]


def _read(path: Path) -> dict[str, int]:
    return dict(zip(NAMES, map(int, path.read_text().split()), strict=True))
