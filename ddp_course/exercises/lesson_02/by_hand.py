"""Lesson 2, section 3: DistributedDataParallel, written by the learner."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import compare, rank_list

STEPS = 3


def make_net(width: int) -> Any:
    """A net with a tied, a frozen and an unused layer, and a buffer that matters."""
    import torch
    from torch import nn

    class Net(nn.Module):
        scale: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.first, self.frozen = nn.Linear(width, width), nn.Linear(width, width)
            self.last, self.unused = nn.Linear(width, width), nn.Linear(width, 1)
            self.last.weight = self.first.weight
            self.frozen.requires_grad_(False)
            self.register_buffer("scale", torch.rand(width) + 0.5)

        def forward(self, x: Any) -> Any:
            return self.last(torch.tanh(self.frozen(torch.tanh(self.first(x)) * self.scale)))

    return Net()


@contextmanager
def _waits() -> Iterator[list[int]]:
    """One entry for each wait() on a collective's handle meanwhile."""
    import torch.distributed as dist

    original, seen = dist.Work.wait, []

    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(1)
        return original(work, *args, **kwargs)

    dist.Work.wait = wait  # type: ignore[assignment, method-assign]
    try:
        yield seen
    finally:
        dist.Work.wait = original  # type: ignore[method-assign]


class ByHand(Exercise):
    """What both ways to write DDP share: the training they are put through, and its one-process result."""

    lesson, section = "02", 3

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [
            {"width": pick.randint(3, 6), "batch": pick.randint(1, 4), "what": "with other weights on each rank"},
        ]

    def expected(self, case: Case, rank: int) -> Any:
        shape = case["seed"], case["world"], case["width"], case["batch"]
        return dict(_one_process(*shape))

    def train(self, answer_class: Any, case: Case, rank: int) -> Any:
        """Train the learner's wrapper; what it sent in the last step, during backward and in all."""
        import torch
        from torch.nn.parallel import DistributedDataParallel

        from ddp_course.exercises.ranks import collectives, mark, mse, sgd, values, watching

        net = _net(case["seed"] + rank, case["width"])
        model = answer_class(net)
        optimizer = sgd(net)
        with watching(torch.distributed, "all_reduce") as calls:
            for batches in _batches(case["seed"], case["world"], case["width"], case["batch"]):
                optimizer.zero_grad()
                since, calls[:] = mark(), []
                loss = mse(model, batches[rank])
                with _waits() as waits:
                    loss.backward()
                during = collectives(since)
                model.finish()
                sent = collectives(since)
                optimizer.step()
        return {
            "value": values(net),
            "during": sum(name == "all_reduce" for name, _, _ in during),
            "sent": [sum(counts) for name, counts, _ in sent if name == "all_reduce"],
            "waits": max(len(waits), sum(not (call.get("async_op") or call.get("3")) for call in calls)),
            "wraps": any(isinstance(module, DistributedDataParallel) for module in model.modules()),
        }

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if any(one["wraps"] for one in seen):
            return "your class hands the work to PyTorch's DistributedDataParallel. Here you build it yourself."
        if wrong := compare(expected["value"], [one["value"] for one in seen], expected["known"], self.tolerance):
            return f"after {STEPS} steps, {wrong}"
        odd = [rank for rank, one in enumerate(seen) if one["sent"] != seen[0]["sent"]]
        if odd:
            ours, first = seen[odd[0]]["sent"], seen[0]["sent"]
            return f"{rank_list(odd)} sent other all-reduces than rank 0: {ours} against {first}."
        return self.judge_traffic(case, expected, seen[0])

    def judge_traffic(self, case: Case, expected: Any, one: Any) -> str | None:
        """Feedback on what was sent in one step, where the values are right."""
        raise NotImplementedError


@cache
def _one_process(seed: int, world: int, width: int, batch: int) -> dict[str, Any]:
    """The right weights after the training, and those that the usual mistakes give."""
    from ddp_course.exercises.ranks import simulate, values, values_per_rank

    steps = _batches(seed, world, width, batch)

    def same() -> list[Any]:
        return [_net(seed, width) for _ in range(world)]

    def own() -> list[Any]:
        return [_net(seed + rank, width) for rank in range(world)]

    own_buffers = same()
    for net, other in zip(own_buffers, own(), strict=True):
        net.scale = other.scale
    known = [
        [simulate(same(), steps, "sum"), f"Your gradients are the sum, exactly {world}× the mean."],
        [simulate(same(), steps, "own"), "The ranks drift apart: each one steps with its own gradient."],
        [simulate(own(), steps, "mean"), "Every rank started from its own weights. Whose should all start from?"],
        [
            simulate(own_buffers, steps, "mean"),
            "The parameters start alike, but the buffers are still each rank's own.",
        ],
        [own(), "Nothing was trained: the weights are those from the start."],
    ]
    right = simulate(same(), steps)[0]
    return {"value": values(right), "known": [[values_per_rank(nets), why] for nets, why in known]}


def _net(seed: int, width: int) -> Any:
    from ddp_course.exercises.ranks import seeded

    return seeded(seed, lambda: make_net(width))


def _batches(seed: int, world: int, width: int, batch: int) -> Any:
    from ddp_course.exercises.ranks import randn

    pairs = randn(seed + 99, STEPS, world, 2, batch, width)
    return [[(pair[0], pair[1]) for pair in step] for step in pairs]


class DdpByHand(ByHand):
    """Hooks, and one all-reduce a parameter."""

    name = "ddp_by_hand"
    title = "DDP by hand, a hook for each parameter"
    minutes, difficulty = 15, 2
    tested = "equal to one process; tied, frozen and unused parameters; all-reduces counted"
    stub = '''\
import torch
import torch.distributed as dist
from torch import nn


class HandDDP(nn.Module):
    """DistributedDataParallel with one all-reduce for each trainable parameter, sent while backward
    runs."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        raise NotImplementedError

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        """Called after every backward(): when it returns, each gradient is the mean over the
        ranks."""
        raise NotImplementedError
'''
    hints = (
        "Two jobs in __init__. First: every rank must start from the same parameters and buffers, rank 0's. Second: "
        "ask autograd to tell you when a gradient is ready.",
        "dist.broadcast(tensor, src=0) inside torch.no_grad() for the first job. For the second, "
        "parameter.register_post_accumulate_grad_hook(f) calls f(parameter) when .grad is complete. Frozen parameters "
        "have no gradient to wait for.",
        "In the hook, start dist.all_reduce(parameter.grad, async_op=True) and keep what it returns in a list. "
        "finish() waits for each of them, then turns each sum into a mean, and empties the list for the next step.",
    )

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        return self.train(answer.HandDDP, case, rank)

    def judge_traffic(self, case: Case, expected: Any, one: Any) -> str | None:
        width = case["width"]
        used, unused = [width * width, width, width], [width, 1]  # the tied weight counts once
        sent = sorted(one["sent"])
        if sent not in (sorted(used), sorted(used + unused)):
            return (
                f"the values are right, but a step sent {len(sent)} all-reduces, of {sent} elements.\n"
                f"3 parameters get a gradient, of {sorted(used)} elements: one all-reduce each, also for a tied one."
            )
        if one["during"] < len(used):
            return (
                f"the values are right, but {one['during']} of {len(sent)} all-reduces started while backward ran.\n"
                "A hook on each parameter starts its all-reduce at once; finish() comes too late to overlap."
            )
        return None
