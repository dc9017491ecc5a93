"""Lesson 2, section 4: which gradients travel together."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import show

_MIB = 1 << 20


class PredictBuckets(Exercise):
    """DDP's bucket layout, predicted, against what DDP itself logs."""

    name = "predict_buckets"
    lesson, section = "02", 4
    title = "predict DDP's buckets"
    minutes, difficulty = 8, 2
    tested = "the rebuilt buckets that DDP itself logs, for four models"
    worlds = (2,)
    oracle_needs_all_ranks = True
    stub = '''\
def bucket_bytes(sizes, first_cap, cap):
    """sizes: the bytes of each parameter, in the order of model.parameters(), which the forward
    pass follows.

    Returns a list: the bytes of each bucket that DDP uses from the second step on, in the order it
    sends them. first_cap holds for the bucket that is sent first, cap for all others, in bytes.
    """
    raise NotImplementedError
'''
    hints = (
        "Which gradient is ready first in a backward pass, the first layer's or the last layer's?",
        "Go through the parameters from the last to the first. A bucket takes parameters whole, and a parameter that "
        "crosses the cap: is it still inside, or the first of the next bucket? Look at 29,388,800 bytes against a cap "
        "of 25 MiB.",
        "Keep a running sum. After adding a parameter, compare with the cap that holds for this bucket; when it is "
        "reached, close the bucket and start at 0. Do not forget what is left at the end.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [
            {"widths": [256] * 15, "what": "and 14 layers of 256 × 256"},
            {"widths": [64, 900, 300, 700, 200, pick.randrange(400, 500)], "what": "and 5 unequal layers"},
            {"widths": [pick.randrange(1030, 1100), 511, 512], "what": "and 2 layers, the last of 1 MiB exactly"},
            {"widths": [32, pick.randrange(32, 64), 8], "what": "and 2 small layers"},
        ]

    def expected(self, case: Case, rank: int) -> Any:
        import torch
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel

        layers = [nn.Linear(a, b) for a, b in zip(case["widths"], case["widths"][1:], strict=False)]
        model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb_list=[1, 2])
        for _ in range(3):  # rebuilt after the first step, logged after the next
            model(torch.ones(1, case["widths"][0])).sum().backward()
        logged = model._get_ddp_logging_data()["rebuilt_bucket_sizes"]
        return [int(size) for size in logged.split(", ")]

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        return plain(answer.bucket_bytes(_sizes(case), _MIB, 2 * _MIB))

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        wrong = [one for one in seen if one != expected]
        if not wrong:
            return None
        sizes = _sizes(case)
        backwards = sizes[::-1]
        known = {
            tuple(_layout(sizes, _MIB, 2 * _MIB)): "That is the order of the forward pass. Which gradient comes first?",
            tuple(_layout(backwards, 2 * _MIB, 2 * _MIB)): "The bucket that is sent first has a cap of its own.",
            tuple(_layout(backwards, _MIB, 2 * _MIB, crosses=False)): "Your buckets close before they reach their cap.",
            tuple(expected[::-1]): "The buckets are right, but DDP sends them in the other order.",
            tuple(backwards): "That is one bucket for each parameter.",
            tuple(_layout(backwards, _MIB + 1, 2 * _MIB + 1)): "A bucket that holds its cap exactly is full.",
            tuple([*expected, 0]): "Your last bucket is empty: where nothing is left, there is no bucket.",
            tuple(expected[:-1]): "What is left at the end goes in a bucket too, full or not.",
        }
        why = known.get(tuple(wrong[0])) if isinstance(wrong[0], list) else None
        if why is None and isinstance(wrong[0], list) and all(isinstance(size, (int, float)) for size in wrong[0]):
            if sum(wrong[0]) != sum(sizes):
                why = f"Yours hold {sum(wrong[0]):,} bytes in all; the parameters have {sum(sizes):,}."
            elif 0 in wrong[0]:
                why = "A bucket of 0 bytes has nothing to send."
        numbers = f"DDP's buckets: {_mib(expected)}\nyours: {_mib(wrong[0])}"
        return "\n".join([numbers, *([why] if why else [])])


def _sizes(case: Case) -> list[int]:
    pairs = zip(case["widths"], case["widths"][1:], strict=False)
    return [size for a, b in pairs for size in (4 * a * b, 4 * b)]


def _layout(sizes: list[int], first_cap: int, cap: int, crosses: bool = True) -> list[int]:
    buckets, full = [0], first_cap
    for size in sizes:
        if buckets[-1] and (buckets[-1] >= full if crosses else buckets[-1] + size > full):
            buckets.append(0)
            full = cap
        buckets[-1] += size
    return buckets


def _mib(sizes: Any) -> str:
    numbers = isinstance(sizes, list) and all(isinstance(size, (int, float)) for size in sizes)
    return ", ".join(f"{size:,}" for size in sizes[:12]) + " bytes" if numbers else show(sizes)
