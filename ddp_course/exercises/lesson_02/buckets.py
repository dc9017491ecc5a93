"""Lesson 2, section 3: DistributedDataParallel with buckets, written by the learner."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Case
from ddp_course.exercises.lesson_02.by_hand import ByHand


class DdpBuckets(ByHand):
    """The same with buckets."""

    name = "ddp_buckets"
    title = "DDP by hand, in buckets"
    minutes, difficulty = 25, 3
    tested = "equal to one process; bucket sizes for three caps; all-reduces started during backward"
    stub = '''\
import torch
import torch.distributed as dist
from torch import nn


class BucketDDP(nn.Module):
    """DistributedDataParallel with one all-reduce for each bucket of gradients.

    Buckets hold the trainable parameters from the last to the first. A bucket closes as soon as it
    holds cap bytes or more; the last one may hold less. Its all-reduce starts, async_op=True, when
    its last gradient is ready.
    """

    def __init__(self, module, cap):
        super().__init__()
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)
        raise NotImplementedError

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        """Called after every backward(): sends buckets that are still incomplete, with zeros for
        gradients that never came, and waits. When it returns, each gradient is the mean over the
        ranks."""
        raise NotImplementedError
'''
    hints = (
        "Build the buckets first: lists of parameters, from reversed(list(module.parameters())), frozen ones left out. "
        "Print their sizes in bytes before you write a hook.",
        "A hook has to know its bucket: keep a count of the gradients that are ready in each. When it reaches the "
        "number of parameters, the bucket can go. To send it at once, copy its gradients into one flat tensor.",
        "torch.cat([g.flatten() for g in grads]) makes the flat tensor; async_op=True returns a handle. In finish(), "
        "wait, divide, and copy each slice back into its gradient; split() by numel() gives the slices. Then reset "
        "the counts.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        width = pick.randint(3, 6)
        square = width * width
        same = {"width": width, "batch": pick.randint(1, 4), "seed": pick.randrange(1 << 30)}
        caps = [1, (square + width) * 4, 1 << 20]
        return [{**same, "cap": cap, "what": f"with a cap of {cap:,} byte{'s' * (cap > 1)}"} for cap in caps]

    def expected(self, case: Case, rank: int) -> Any:
        width = case["width"]
        counts = [1, width, width, width, width * width]  # unused, last.bias, first: from the last to the first
        buckets: list[int] = []
        room = 0
        for count in counts:
            if room <= 0:
                buckets.append(0)
                room = case["cap"]
            buckets[-1] += count
            room -= count * 8
        return {**super().expected(case, rank), "buckets": buckets}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        return self.train(lambda net: answer.BucketDDP(net, case["cap"]), case, rank)

    def judge_traffic(self, case: Case, expected: Any, one: Any) -> str | None:
        sent, buckets = one["sent"], expected["buckets"]
        if sorted(sent) != sorted(buckets):
            bytes_sent, wanted = [8 * n for n in sorted(sent)], [8 * n for n in sorted(buckets)]
            return (
                f"the values are right, but a step sent {len(sent)} all-reduces of {bytes_sent} bytes.\n"
                f"A cap of {case['cap']:,} bytes gives {len(buckets)}, of {wanted} bytes."
            )
        if len(buckets) > 1 and one["during"] == 0:
            return (
                "the values are right, but no all-reduce started while backward ran.\n"
                "A full bucket can go while earlier layers still compute: start it in the hook of its last gradient."
            )
        if one["waits"]:
            return (
                f"the values are right, but {one['waits']} of {len(sent)} all-reduces made backward wait.\n"
                "async_op=True returns at once; finish() is the place to wait."
            )
        return None
