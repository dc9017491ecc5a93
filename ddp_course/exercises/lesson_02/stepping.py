"""Lesson 2, section 6: one step of a production script."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import compare

_STEPS = 2


class Accumulate(Exercise):
    """Accumulation and clipping, with one exchange of gradients a step."""

    name = "accumulate"
    lesson, section = "02", 6
    title = "one step out of several micro-batches"
    minutes, difficulty = 10, 2
    tested = "1 to 4 micro-batches, with and without clipping; equal to one process; all-reduces counted"
    stub = '''\
import contextlib

import torch
import torch.nn.functional as F


def train_step(model, optimizer, micro_batches, max_norm):
    """One optimizer step on all micro-batches of all ranks; the loss is the mean of F.mse_loss over
    them.

    model is wrapped in DDP. micro_batches: this rank's list of (inputs, targets), all of one size.
    The gradient is clipped to max_norm. Gradients travel once in a step, however many micro-batches
    there are. Returns the norm of the gradient before it was clipped.
    """
    raise NotImplementedError
'''
    hints = (
        "Three separate questions: by what must each micro-batch's loss be divided? Which backward may talk to the "
        "other ranks? At which moment does every rank hold the gradient of the whole batch?",
        "model.no_sync() is a context manager: inside it, gradients add up on this rank only. DDP decides in the "
        "forward pass whether the next backward will exchange, so the forward must be inside too.",
        "All micro-batches but the last under no_sync(). After the last backward the gradients are final on every "
        "rank: there torch.nn.utils.clip_grad_norm_ sees the same norm everywhere. It returns that norm.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        chosen = ((4, 1e9), (pick.randint(2, 3), 0.05), (1, 0.05))
        return [
            {"micro": n, "norm": norm, "batch": pick.randint(1, 4), "what": f"with {n} micro-batch{'es' * (n > 1)}"}
            for n, norm in chosen
        ]

    def expected(self, case: Case, rank: int) -> Any:
        micro = case["micro"]
        own = [self._one_process(case, only=r) for r in range(case["world"])]
        known = [
            [
                self._one_process(case, factor=micro),
                f"The gradient is the sum over {micro} micro-batches, exactly {micro}× the mean.",
            ],
            [self._one_process(case, clip=False), "The optimizer used the gradient as it was before clipping."],
            [self._one_process(case, zero=False), "The gradient of the step before is still in it."],
            [self._one_process(case, step=False), "The weights never moved: the optimizer took no step."],
            [self._clipped_each(case), "Every micro-batch was clipped; the norm that counts is the whole batch's."],
            [
                {name: {"per rank": [one[name] for one in own]} for name in own[0]},
                "The ranks drift apart: no backward of this step exchanged gradients, not even the last.",
            ],
        ]
        return {"value": self._one_process(case), "known": known[1:] if micro == 1 else known}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from torch.nn.parallel import DistributedDataParallel

        from ddp_course.exercises.ranks import collectives, mark, plain, sgd, values

        net, norms, since = self.net(case), [], 0
        model = DistributedDataParallel(net)
        optimizer = sgd(model)
        for x, y in self.batches(case):
            since = mark()
            micro_batches = list(zip(x[rank], y[rank], strict=True))
            norms.append(plain(answer.train_step(model, optimizer, micro_batches, case["norm"])))
        sent = sum(sum(counts) for name, counts, _ in collectives(since) if name == "all_reduce")
        return {
            "value": {"norm": norms, **values(net)},
            "travelled": round(sent / sum(p.numel() for p in net.parameters())),
        }

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := compare(expected["value"], [one["value"] for one in seen], expected["known"]):
            return f"after {_STEPS} steps, {wrong}"
        if (times := seen[0]["travelled"]) > 1:
            return (
                f"the values are right, but the gradients travelled {times} times in a step, for {case['micro']} "
                "micro-batches; once would do.\nDDP decides in the forward pass whether the next backward exchanges."
            )
        return None

    def _one_process(
        self,
        case: Case,
        factor: float = 1,
        clip: bool = True,
        zero: bool = True,
        step: bool = True,
        only: int | None = None,
    ) -> dict[str, Any]:
        """The steps in one process on all micro-batches together, or with one of the usual mistakes."""
        import torch

        from ddp_course.exercises.ranks import mse, sgd, values

        net, norms = self.net(case), []
        optimizer = sgd(net)
        seen = slice(None) if only is None else slice(only, only + 1)
        for x, y in self.batches(case):
            if zero:
                optimizer.zero_grad()
            (factor * mse(net, (x[seen].flatten(0, 2), y[seen].flatten(0, 2)))).backward()
            bound = case["norm"] if clip else float("inf")
            norms.append(float(torch.nn.utils.clip_grad_norm_(net.parameters(), bound)))
            if step:
                optimizer.step()
        return {"norm": norms, **values(net)}

    def _clipped_each(self, case: Case) -> dict[str, Any]:
        """The steps with the gradient so far clipped after every micro-batch, on each rank by itself till the last."""
        import torch

        from ddp_course.exercises.ranks import mse, sgd, values

        net, norms = self.net(case), []
        optimizer, parameters = sgd(net), list(net.parameters())
        for x, y in self.batches(case):
            mean = [torch.zeros_like(parameter) for parameter in parameters]
            for rank in range(case["world"]):
                optimizer.zero_grad()
                for number, micro_batch in enumerate(zip(x[rank], y[rank], strict=True)):
                    if number:
                        torch.nn.utils.clip_grad_norm_(parameters, case["norm"])
                    (mse(net, micro_batch) / case["micro"]).backward()
                for total, parameter in zip(mean, parameters, strict=True):
                    total += parameter.grad / case["world"]
            for total, parameter in zip(mean, parameters, strict=True):
                parameter.grad = total
            norms.append(float(torch.nn.utils.clip_grad_norm_(parameters, case["norm"])))
            optimizer.step()
        return {"norm": norms, **values(net)}

    @staticmethod
    def net(case: Case) -> Any:
        """The net before training, alike on all ranks."""
        from torch import nn

        from ddp_course.exercises.ranks import seeded

        return seeded(case["seed"], lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))

    @staticmethod
    def batches(case: Case) -> list[Any]:
        """For each step the inputs and targets of all ranks: (rank, micro-batch, sample, feature)."""
        from ddp_course.exercises.ranks import randn

        shape = (_STEPS, case["world"], case["micro"], case["batch"])
        inputs, targets = randn(case["seed"] + 1, *shape, 3), randn(case["seed"] + 2, *shape, 2)
        return list(zip(inputs, targets, strict=True))
