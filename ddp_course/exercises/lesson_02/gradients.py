"""Lesson 2: gradients that one process would have computed."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import join


class AverageGradient(Exercise):
    """The mean over all tokens, from ranks that hold different numbers of them."""

    name = "average_gradient"
    lesson, section = "02", 3
    title = "average that survives unequal shards"
    minutes, difficulty = 6, 2
    tested = "equal and unequal shards, float32 and float64"
    stub = '''\
import torch
import torch.distributed as dist


def average_gradient(grad, tokens_here):
    """grad: the mean gradient over this rank's tokens_here tokens, a tensor of any shape; it must
    not change.

    Returns, on every rank, the mean gradient over the tokens of all ranks, with the shape and dtype
    of grad.
    """
    raise NotImplementedError
'''
    hints = (
        "A mean forgets how many tokens are behind it. Which two numbers does each rank have to contribute, so "
        "that nobody needs to know the others' means?",
        "Turn this rank's mean back into a sum: grad × tokens_here. Sums add up over ranks, and so do counts.",
        "Two all-reduces: one of a new tensor that holds the sum, one of a tensor that holds the count. Then divide. "
        "dist.all_reduce works in place, so give it tensors of your own.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        equal = [pick.randint(2, 9)] * world
        unequal = pick.sample(range(1, 12), world)
        empty = [*pick.sample(range(1, 12), world - 1), 0]
        return [
            {"tokens": equal, "what": f"with {equal[0]} tokens each", "shape": [], "dtype": "float64"},
            {"tokens": unequal, "what": f"with {join(unequal)} tokens", "shape": [], "dtype": "float64"},
            {"tokens": empty, "what": f"with {join(empty)} tokens", "shape": [3], "dtype": "float64"},
            {
                "tokens": unequal[::-1],
                "what": f"with {join(unequal[::-1])} tokens, float32",
                "shape": [2, 5],
                "dtype": "float32",
                "tolerance": 1e-5,
            },
        ]

    def expected(self, case: Case, rank: int) -> Any:
        import torch

        tokens = torch.tensor(case["tokens"], dtype=torch.float64)
        means = torch.stack([self._grad(case, r).double() for r in range(case["world"])])
        weights = tokens.view(-1, *[1] * (means.dim() - 1))
        total = (means * weights).sum(0)
        sum_of_means = means.sum(0)
        return {
            "value": (total / tokens.sum()).tolist(),
            "known": [
                [
                    sum_of_means.tolist(),
                    "{seen} is the sum of the ranks' means. One process that saw every token would have averaged.",
                ],
                [
                    (sum_of_means / case["world"]).tolist(),
                    "{seen} is the mean of the ranks' means: each rank weighs the same, however many tokens it saw.",
                ],
                [total.tolist(), "{seen} is the sum over all tokens: it still has to be divided by their number."],
                [
                    (total / case["world"]).tolist(),
                    "{seen} is the sum over all tokens, divided by the number of ranks instead of tokens.",
                ],
                [
                    {"per rank": means.tolist()},
                    "That is each rank's own gradient, as it came in: nothing was exchanged.",
                ],
                [
                    {"per rank": (means * weights / tokens.sum()).tolist()},
                    "That is each rank's share of the answer: the shares still have to be added up over the ranks.",
                ],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        import torch

        from ddp_course.exercises.ranks import plain

        grad = self._grad(case, rank)
        before = grad.clone()
        result = answer.average_gradient(grad, case["tokens"][rank])
        dtype = str(result.dtype).removeprefix("torch.") if isinstance(result, torch.Tensor) else None
        return {"value": plain(result), "dtype": dtype, "kept": bool(torch.equal(grad, before))}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := super().judge(case, expected, [one["value"] for one in seen], calls):
            return wrong
        if not all(one["kept"] for one in seen):
            return (
                "the values are right, but grad itself has changed.\nall_reduce and *= work in place: use a new tensor."
            )
        if {one["dtype"] for one in seen} != {case["dtype"]}:
            return f"the values are right, but their dtype is {seen[0]['dtype']}; grad's is {case['dtype']}."
        return None

    def _grad(self, case: Case, rank: int) -> Any:
        import torch

        from ddp_course.exercises.ranks import randn

        return randn(case["seed"] + rank, *case["shape"], dtype=getattr(torch, case["dtype"]))
