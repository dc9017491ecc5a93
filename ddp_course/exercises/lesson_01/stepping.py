"""Lesson 1, section 4: N ranks take the step of one process."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Case, Exercise
from ddp_course.exercises.compare import join

STEPS = 2
RATE = 0.1


class OneProcessStep(Exercise):
    """Replicate, split, average, step: to twelve digits what one process does."""

    name = "one_process_step"
    lesson, section = "01", 4
    title = "N ranks, one step"
    minutes, difficulty = 10, 2
    tested = "mean and sum loss, equal and unequal shards, other seeds on each rank; weights equal to 1e-12"
    tolerance = 1e-12
    stub = '''\
import torch
import torch.distributed as dist
import torch.nn.functional as F


def start_alike(model):
    """Give every rank the parameters of rank 0."""
    raise NotImplementedError


def step(model, inputs, targets, reduction, lr):
    """One step of plain SGD, parameter -= lr × gradient, the same on every rank.

    inputs, targets: this rank's samples; other ranks can have more or fewer. The loss is
    F.mse_loss(…, reduction=reduction) over the samples of all ranks together; reduction is "mean"
    or "sum".
    """
    raise NotImplementedError
'''
    hints = (
        "Write down the gradient of the one process for a sum loss first: it is a sum over samples, so a sum over "
        "ranks. What is different for the mean?",
        "Take the sum loss on each rank in both cases, and all-reduce the gradients. For the mean, one number is "
        "missing, and no rank knows it alone.",
        "The missing number is the count of all elements of all ranks' targets: all-reduce targets.numel() too. "
        "start_alike is a dist.broadcast of each parameter's data.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        equal, unequal = [pick.randint(2, 6)] * world, pick.sample(range(1, 9), world)
        return [
            {"samples": samples, "reduction": loss, "what": f"with {join(samples)} samples, {loss} loss"}
            for samples in (equal, unequal)
            for loss in ("mean", "sum")
        ]

    def expected(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import values, values_per_rank

        world, samples = case["world"], case["samples"]
        same, other = [self.net(case, 0)] * world, [self.net(case, r) for r in range(world)]
        total, mean = f"Your gradients are the sum over ranks, {world}× their mean.", "mean of the ranks' means"
        known: list[list[Any]] = [
            [self._train(case, same, lambda grads: sum(grads)), total],
            [self._train(case, same, lambda grads: sum(grads) / world), f"That steps with the {mean}."],
            [
                self._train(case, same, lambda grads: sum(g * n for g, n in zip(grads, samples, strict=True))),
                "That steps with the sum over all samples: it still has to be divided by their number.",
            ],
            [self._train(case, same, None), "The ranks drift apart: each steps with its own gradient."],
            [self._train(case, other, self._right(case)), "The ranks started from different parameters."],
            [other, "Nothing was trained: each rank has the parameters it began with."],
            [same, "Nothing was trained: the parameters are those of rank 0 at the start."],
        ]
        if case["reduction"] == "sum":
            average = f"With a sum loss, the average over ranks is 1/{world} of the one-process gradient."
            known = [[known[1][0], average], *known[3:]]
        elif len(set(samples)) > 1:
            known[1][1] += " A rank with few samples then weighs as much as one with many."
        right = self._train(case, same, self._right(case))
        return {"value": values(right[0]), "known": [[values_per_rank(nets), why] for nets, why in known]}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import values

        model = self.net(case, rank)
        answer.start_alike(model)
        for batches in self._batches(case):
            answer.step(model, *batches[rank], case["reduction"], RATE)
        return values(model)

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: Any) -> str | None:
        wrong = super().judge(case, expected, seen, calls)
        return f"after {STEPS} steps, {wrong}" if wrong else None

    def _right(self, case: Case) -> Any:
        counts = case["samples"]
        if case["reduction"] == "sum":
            return sum
        return lambda grads: sum(g * n for g, n in zip(grads, counts, strict=True)) / sum(counts)

    def _train(self, case: Case, start: list[Any], combine: Any) -> list[Any]:
        """One model a rank, trained with the gradients that `combine` makes of theirs; None: each its own."""
        import copy

        import torch
        from torch.nn.functional import mse_loss

        models = [copy.deepcopy(model) for model in start]
        for batches in self._batches(case):
            for model, (inputs, targets) in zip(models, batches, strict=True):
                model.zero_grad()
                mse_loss(model(inputs), targets, reduction=case["reduction"]).backward()
            with torch.no_grad():
                for parameters in zip(*[model.parameters() for model in models], strict=True):
                    grads = [parameter.grad for parameter in parameters]
                    for parameter, own in zip(parameters, grads, strict=True):
                        parameter -= RATE * (combine(grads) if combine else own)
        return models

    @staticmethod
    def net(case: Case, rank: int) -> Any:
        """The net that a rank begins with: other weights on each."""
        from torch import nn

        from ddp_course.exercises.ranks import seeded

        return seeded(case["seed"] + rank, lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))

    @staticmethod
    def _batches(case: Case) -> list[Any]:
        """For each step, each rank's (inputs, targets)."""
        from ddp_course.exercises.ranks import randn

        seed = case["seed"] + 50
        return [
            [
                (randn(seed + 10 * step + r, n, 3), randn(seed + 500 + 10 * step + r, n, 2))
                for r, n in enumerate(case["samples"])
            ]
            for step in range(STEPS)
        ]
