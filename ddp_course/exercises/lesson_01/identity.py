"""Lesson 1, section 2: which process am I?"""

from __future__ import annotations

import os
import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Case, Exercise


class WhoAmI(Exercise):
    """Rank, world size, local rank and backend."""

    name = "who_am_i"
    lesson, section = "01", 2
    title = "say who you are"
    minutes, difficulty = 4, 1
    tested = "on one node, on one node a rank, and on nodes of two"
    stub = '''\
import os

import torch.distributed as dist


def who_am_i():
    """Called after init_process_group(). Returns a tuple of four: the rank of this process, the
    world size, its local rank (its number among the processes of its own node), and the name of
    the backend."""
    raise NotImplementedError
'''
    hints = (
        "Three of the four are questions to the process group. The fourth is about this machine, and the process "
        "group does not know machines.",
        "torchrun tells each process its place in environment variables. Print those that end in RANK.",
        "dist.get_rank(), dist.get_world_size() and dist.get_backend() give three. The local rank is in the "
        "environment, as text: make it an int.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        nodes = [{"per_node": world, "what": "on one node"}, {"per_node": 1, "what": "on a node each"}]
        if world > 2:
            nodes.append({"per_node": 2, "what": "on nodes of two"})
        return nodes

    def expected(self, case: Case, rank: int) -> Any:
        world, per_node = case["world"], case["per_node"]
        ranks = range(world)
        local = [r % per_node for r in ranks]

        def each(one: Any) -> dict[str, Any]:
            return {"per rank": [one(r) for r in ranks]}

        return {
            "value": each(lambda r: [r, world, local[r], "gloo"]),
            "known": [
                [each(lambda r: [r, world, r, "gloo"]), "The local rank starts at 0 again on every node."],
                [each(lambda r: [local[r], world, local[r], "gloo"]), "The rank is unique over all nodes."],
                [each(lambda r: [r, per_node, local[r], "gloo"]), "The world is all processes of all nodes."],
                [
                    each(lambda r: [r, world, str(local[r]), "gloo"]),
                    "An environment variable is text; a local rank is a number.",
                ],
                [
                    each(lambda r: [str(r), str(world), str(local[r]), "gloo"]),
                    "Environment variables are text; ranks and sizes are numbers.",
                ],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        per_node = case["per_node"]
        place = {"LOCAL_RANK": rank % per_node, "LOCAL_WORLD_SIZE": per_node, "GROUP_RANK": rank // per_node}
        before = {name: os.environ[name] for name in place}
        os.environ.update({name: str(value) for name, value in place.items()})
        try:
            return plain(answer.who_am_i())
        finally:
            os.environ.update(before)
