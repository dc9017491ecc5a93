"""Lesson 1, section 7: two layers cut over the ranks."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise


class ColumnThenRow(Exercise):
    """Tensor parallelism of an MLP: one all-reduce forward, one backward."""

    name = "column_then_row"
    lesson, section = "01", 7
    title = "one layer by columns, the next by rows"
    minutes, difficulty = 12, 3
    tested = "output and all gradients equal to one process; one all-reduce forward, one backward"
    stub = '''\
import torch
import torch.distributed as dist
import torch.nn.functional as F


def mlp(x, up, down):
    """What F.gelu(x @ whole_up) @ whole_down gives in one process, with its gradients.

    x: (batch, width), the same on every rank. up: (width, hidden / N), this rank's columns of
    whole_up. down: (hidden / N, width), this rank's rows of whole_down. After backward, x.grad
    has to be that of the one process, and up.grad and down.grad this rank's part of it.
    All-reduce once in each direction.
    """
    raise NotImplementedError
'''
    hints = (
        "Forward: what does F.gelu(x @ up) @ down on one rank lack? Backward: x goes into every rank's columns, so "
        "its gradient has a part from every rank.",
        "Autograd sees only this rank. You need two functions of your own, torch.autograd.Function: for one the "
        "forward does nothing and the backward sums over ranks, for the other it is the other way around.",
        "Where the ranks part, put the function that sums in backward around x; where they meet, put the one that "
        "sums in forward around the result, and let its backward return the gradient as it is. "
        "dist.all_reduce works in place: clone first.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [
            {
                "batch": pick.randint(1, 5),
                "width": pick.randint(2, 5),
                "part": part,
                "what": f"with {part} columns each",
            }
            for part in (pick.randint(2, 4), 1)
        ]

    def expected(self, case: Case, rank: int) -> Any:
        import torch

        world = case["world"]
        whole = self._train(case, slice(None))
        parts = [self._train(case, self._part(case, r)) for r in range(world)]
        ups = [whole["up.grad"][:, self._part(case, r)] for r in range(world)]
        downs = [whole["down.grad"][self._part(case, r)] for r in range(world)]

        def each(tensors: list[Any], factor: float = 1) -> Any:
            return {"per rank": [(factor * tensor).tolist() for tensor in tensors]}

        return {
            "value": {
                "y": whole["y"].tolist(),
                "x.grad": whole["x.grad"].tolist(),
                "up.grad": each(ups),
                "down.grad": each(downs),
            },
            "known": [
                [{"y": each([p["y"] for p in parts])}, "That is this rank's part. The parts are still to be added up."],
                [{"y": (torch.stack([p["y"] for p in parts]).mean(0)).tolist()}, "The parts are to be summed."],
                [
                    {"x.grad": each([p["x.grad"] for p in parts])},
                    "That is the part that this rank's columns give. x went to every rank: its gradient is the sum.",
                ],
                [
                    {"x.grad": (world * whole["x.grad"]).tolist()},
                    f"{world}× the gradient: the sum over ranks was taken twice on the way back.",
                ],
                [
                    {"up.grad": each(ups, world)},
                    f"{world}× the gradient. Behind the sum every rank holds the same gradient: hand it back as it is.",
                ],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        import torch

        from ddp_course.exercises.ranks import collectives, mark, plain

        x, up, down, toward = self._tensors(case, self._part(case, rank))
        inside = x * 1  # not a leaf: the layers before it get their gradient through it
        before = inside.detach().clone()
        since = mark()
        y = answer.mlp(inside, up, down)
        forward, since = collectives(since), mark()
        (y * toward).sum().backward()
        value = {"y": y, "x.grad": x.grad, "up.grad": up.grad, "down.grad": down.grad}
        return {
            "value": {name: plain(tensor) for name, tensor in value.items()},
            "kept": bool(torch.equal(inside, before)),
            "recorded": [[name for name, _, _ in forward], [name for name, _, _ in collectives(since)]],
        }

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := super().judge(case, expected, [one["value"] for one in seen], calls):
            return wrong
        if not all(one["kept"] for one in seen):
            return "the values are right, but x itself has changed. Clone before you all-reduce."
        for direction, recorded in zip(("forward", "backward"), seen[0]["recorded"], strict=True):
            if recorded != ["all_reduce"]:
                return (
                    f"the values are right, but {direction} took {len(recorded)} collectives: {', '.join(recorded)}.\n"
                    "One all-reduce in each direction will do."
                )
        return None

    def _part(self, case: Case, rank: int) -> slice:
        return slice(rank * case["part"], (rank + 1) * case["part"])

    def _tensors(self, case: Case, part: slice) -> tuple[Any, ...]:
        """x, the columns and rows in `part`, and what y is multiplied with to give a loss."""
        from ddp_course.exercises.ranks import randn

        batch, width, hidden, seed = case["batch"], case["width"], case["part"] * case["world"], case["seed"]
        x, toward = randn(seed, batch, width), randn(seed + 1, batch, width)
        up, down = randn(seed + 2, width, hidden)[:, part].clone(), randn(seed + 3, hidden, width)[part].clone()
        return x.requires_grad_(), up.requires_grad_(), down.requires_grad_(), toward

    def _train(self, case: Case, part: slice) -> dict[str, Any]:
        """What one process gets with the columns and rows in `part`, and its gradients."""
        from torch.nn.functional import gelu

        x, up, down, toward = self._tensors(case, part)
        y = gelu(x @ up) @ down
        (y * toward).sum().backward()
        return {"y": y.detach(), "x.grad": x.grad, "up.grad": up.grad, "down.grad": down.grad}
