"""Lesson 1, section 3: an all-reduce out of two other collectives."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import join


class AllReduceFromParts(Exercise):
    """Reduce-scatter, then all-gather."""

    name = "all_reduce_from_parts"
    lesson, section = "01", 3
    title = "all-reduce out of reduce-scatter and all-gather"
    minutes, difficulty = 8, 2
    tested = "lengths that the number of ranks divides and others; what was sent is counted"
    stub = '''\
import torch
import torch.distributed as dist


def sum_over_ranks(tensor):
    """tensor: 1-D, not empty, of the same length on every rank; it must not change.

    Returns the sum over all ranks, on every rank, from one dist.reduce_scatter_single(output,
    input) and one dist.all_gather_single(output, input). The length need not be a multiple of the
    number of ranks.
    """
    raise NotImplementedError
'''
    hints = (
        "After a reduce-scatter, each rank holds one piece of the answer. Which collective puts pieces together?",
        "Both want equal pieces. How long is a piece when 10 numbers go to 4 ranks, and what fills up the last one?",
        "Copy the tensor into zeros of length world size × piece, reduce-scatter that into a new tensor of one piece, "
        "gather the pieces, and cut the result to the length of the tensor.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        lengths = [world * pick.randint(2, 5), world * pick.randint(2, 5) + pick.randint(1, world - 1), 1]
        return [{"length": n, "what": f"and {n} element{'s' * (n > 1)}"} for n in lengths]

    def expected(self, case: Case, rank: int) -> Any:
        import torch

        world, length = case["world"], case["length"]
        each = torch.stack([self._tensor(case, r) for r in range(world)])
        total = each.sum(0)
        piece = -(-length // world)
        pieces = torch.cat([total, total.new_zeros(world * piece - length)]).view(world, piece)
        return {
            "value": total.tolist(),
            "known": [
                [(total / world).tolist(), f"That is the mean: the sum divided by {world}."],
                [{"per rank": each.tolist()}, "That is each rank's own tensor: nothing was exchanged."],
                [{"per rank": pieces.tolist()}, "That is this rank's piece of the sum. The pieces are to be gathered."],
                [
                    pieces.flatten().tolist(),
                    "The padding is still on it: the result has the length of the tensor.",
                ],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        import torch

        from ddp_course.exercises.lesson_01.sent import sent
        from ddp_course.exercises.ranks import plain

        tensor = self._tensor(case, rank)
        before = tensor.clone()
        with sent() as calls:
            result = answer.sum_over_ranks(tensor)
        return {"value": plain(result), "kept": bool(torch.equal(tensor, before)), "calls": calls}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := super().judge(case, expected, [one["value"] for one in seen], calls):
            return wrong
        if not all(one["kept"] for one in seen):
            return "the values are right, but tensor itself has changed. Work on a copy of it."
        names = [call["name"] for call in seen[0]["calls"]]
        if others := sorted(set(names) - {"reduce_scatter", "all_gather"}):
            return f"the values are right, but you called {join(others)}. Two collectives are asked for here."
        if sorted(names) != ["all_gather", "reduce_scatter"]:
            return f"the values are right, but they took {len(names)} collectives: {join(names)}; one of each will do."
        piece = -(-case["length"] // case["world"])
        gathered = next(call["elements"] for call in seen[0]["calls"] if call["name"] == "all_gather")
        if gathered > piece:
            return (
                f"the values are right, but each rank gave {gathered} elements to the all-gather; a piece has {piece}."
            )
        return None

    def _tensor(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import randn

        return randn(case["seed"] + rank, case["length"])
