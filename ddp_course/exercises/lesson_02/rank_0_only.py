"""Lesson 2, break-it lab: a collective that one rank does not call."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Lab, Option, Question


class RankZeroOnly(Lab):
    """A collective that only rank 0 calls."""

    name = "rank_0_only"
    lesson, section = "02", 1
    title = "a collective under `if rank == 0`"
    minutes, difficulty = 4, 1
    tested = "the mean loss on rank 0, the loss unchanged"
    options = "--nproc-per-node 2 --timeout 10 --lab"
    broken = """\
import torch
import torch.distributed as dist

dist.init_process_group()
rank = dist.get_rank()
for step in range(2):
    gradient = torch.tensor([10.0 * (step + 1)])  # alike on both ranks: the means are 10 and 20
    loss = torch.tensor([1.0 + rank])             # 1 and 2: the mean is 1.5
    if rank == 0:                                 # only rank 0 logs
        dist.all_reduce(loss)
        print(f"step {step}: mean loss {loss.item() / 2}")
    dist.all_reduce(gradient)
    print(f"step {step}: mean gradient {gradient.item() / 2}")
dist.destroy_process_group()
"""
    question = Question(
        "Rank 0 logs a mean loss of 5.5, and both ranks step with wrong gradients. Why?",
        (
            Option(
                "`all_reduce` sums, and the program divides by 2 in the wrong place",
                "Dividing the sum by 2 is right: with both losses in it, (1 + 2) / 2 gives 1.5. Look at what else "
                "5.5 can be half of.",
            ),
            Option(
                "Rank 0's loss was added to rank 1's gradient: a rank's n-th collective meets the other's n-th",
                "Yes: (1 + 10) / 2 = 5.5. Collectives are matched by their order alone. Rank 1's first one is the "
                "gradient's, rank 0's first one is the loss's; from there on they are one apart.",
            ),
            Option(
                "Rank 0 prints before rank 1 has computed its loss",
                "Printing has no part in it: an all-reduce returns only when every rank has contributed.",
            ),
            Option(
                "gloo computes with too little precision",
                "These numbers are exact in float32, and 5.5 against 1.5 is no rounding error.",
            ),
        ),
        "b",
    )
    stub = '''\
import torch
import torch.distributed as dist


def mean_loss(loss):
    """loss: this rank's loss, a tensor with one element, which must not change.

    Returns the mean loss over the ranks, as a number, on rank 0, and None on every other rank.
    """
    raise NotImplementedError
'''
    hints = (
        "Which lines must every rank run, and which ones only the rank that logs?",
        "Move the collective out of the `if`; what stays inside is what happens with its result.",
        "A clone, an all-reduce on every rank, a division by the world size; then rank 0 returns the number.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [{}, {}]

    def expected(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import randn

        losses = randn(case["seed"], case["world"]).tolist()
        world, total = case["world"], sum(losses)
        others = [None] * (world - 1)
        return {
            "value": {"per rank": [total / world, *others]},
            "known": [
                [{"per rank": [total, *others]}, f"{{seen}} is the sum, {world}× the mean."],
                [{"per rank": [losses[0], *others]}, "That is rank 0's own loss."],
                [total / world, "The value is right, but only rank 0 was to return it."],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain, randn

        loss = randn(case["seed"], case["world"])[rank : rank + 1].clone()
        before = loss.item()
        result = plain(answer.mean_loss(loss))
        return {
            "value": result[0] if isinstance(result, list) and len(result) == 1 else result,
            "kept": loss.item() == before,
        }

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := super().judge(case, expected, [one["value"] for one in seen], calls):
            return wrong
        if not all(one["kept"] for one in seen):
            return "the mean is right, but loss itself has changed: all_reduce works in place."
        return None
