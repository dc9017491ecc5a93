"""Lesson 3, section 6: one layer, its weight shared out over the ranks."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import compare, per_rank


class ShardedLinear(Exercise):
    """All-gather, use, let go; all-gather, use, reduce-scatter."""

    name = "sharded_linear"
    lesson, section = "03", 6
    title = "shard one layer"
    minutes, difficulty = 15, 3
    tested = "output and both gradients, the shard's averaged; the whole weight is not kept; three collectives"
    stub = '''\
import torch
import torch.distributed as dist


class ShardedLinear(torch.autograd.Function):
    """x @ weight.T, where each rank keeps its rows of the weight only, also between forward and backward."""

    @staticmethod
    def forward(ctx, x, shard):
        """x: this rank's batch (n, inputs). shard: this rank's rows of the weight (outputs / world size, inputs).

        Rank 0's rows come first. Returns (n, outputs).
        """
        raise NotImplementedError

    @staticmethod
    def backward(ctx, grad):
        """grad: the gradient of the output (n, outputs).

        Returns the gradient of x, and that of the shard, averaged over the ranks.
        """
        raise NotImplementedError
'''
    hints = (
        "On one process: output = x @ weight.T, the gradient of x is grad @ weight, that of the weight grad.T @ x. "
        "Which of the three need the whole weight, and which collective brings it?",
        "ctx.save_for_backward what is small: x and the shard. Backward gathers the whole weight a second time; "
        "that is the price for not keeping it.",
        "grad.T @ x has all rows, from this rank's batch. Every rank needs the mean of its own rows over all batches: "
        "dist.reduce_scatter_single sums and hands each rank its rows; divide by the world size.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        inputs, rows = pick.randint(3, 5), pick.randint(2, 3)
        return [{"inputs": inputs, "rows": rows, "what": f"and a weight of {rows * world} × {inputs}"}]

    def expected(self, case: Case, rank: int) -> Any:
        import torch

        world = range(case["world"])
        x, weight, grad = _data(case)
        whole = torch.stack([grad[r].T @ x[r] for r in world])
        mean = whole.mean(0).chunk(len(world))

        def result(shards: Any) -> dict[str, Any]:
            values = {
                "output": [x[r] @ weight.T for r in world],
                "gradient of x": [grad[r] @ weight for r in world],
                "gradient of the shard": shards,
            }
            return {name: per_rank([value.tolist() for value in ranks]) for name, ranks in values.items()}

        known: list[Any] = [
            [whole.sum(0).chunk(len(world)), "That is the sum over the ranks; FSDP, like DDP, averages."],
            [[whole[r].chunk(len(world))[r] for r in world], "That is what this rank's own batch says of its rows."],
            [[mean[0] for _ in world], "These are rank 0's rows, on every rank."],
        ]
        return {"value": result(mean), "known": [[result(value), why] for value, why in known]}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain
        from ddp_course.traffic import Collectives

        x, weight, grad = _data(case)
        mine = x[rank].clone().requires_grad_()
        shard = weight.chunk(case["world"])[rank].clone().requires_grad_()
        with Collectives() as collectives:
            output = answer.ShardedLinear.apply(mine, shard)
            keeps = _keeps(output.grad_fn, weight.numel(), (mine, shard))
            (output * grad[rank]).sum().backward()
        value = {"output": output, "gradient of x": mine.grad, "gradient of the shard": shard.grad}
        return {"value": plain(value), "keeps": keeps, "log": collectives.log}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := compare(expected["value"], [one["value"] for one in seen], expected["known"]):
            return wrong
        if any(one["keeps"] for one in seen):
            return (
                "right gradients, but the whole weight is kept from forward to backward.\n"
                "For one layer that is no loss. In a model every layer's would lie there at once: nothing is saved."
            )
        names = sorted(name for name, _ in seen[0]["log"])
        if names != ["all_gather", "all_gather", "reduce_scatter"]:
            return (
                f"right gradients, with {', '.join(names)}.\n"
                "An all-gather in forward, one in backward and a reduce-scatter are enough: no rank needs other ranks' "
                "rows of the gradient."
            )
        return None


def _data(case: Case) -> Any:
    """(every rank's batch, the whole weight, every rank's gradient of its output)."""
    from ddp_course.exercises.ranks import randn

    world, outputs = case["world"], case["rows"] * case["world"]
    x = randn(case["seed"], world, 7, case["inputs"])
    return x, randn(case["seed"] + 1, outputs, case["inputs"]), randn(case["seed"] + 2, world, 7, outputs)


def _keeps(function: Any, numbers: int, inputs: Any) -> bool:
    """Whether an autograd function holds a storage of so many `numbers` for its backward, other than its `inputs`.

    Looks at saved tensors and at what is tied to ctx. A view counts as all of its storage.
    """
    import torch

    held = [*getattr(function, "saved_tensors", ()), *vars(function).values()] if function is not None else []
    tensors = [item for one in held for item in (one if isinstance(one, (list, tuple)) else [one])]
    own = {tensor.untyped_storage().data_ptr() for tensor in inputs}
    storages = [t.untyped_storage() for t in tensors if isinstance(t, torch.Tensor)]
    return any(8 * numbers <= storage.nbytes() and storage.data_ptr() not in own for storage in storages)
