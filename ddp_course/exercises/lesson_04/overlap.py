"""Lesson 4, section 8: how long a step takes whose all-reduces run under the backward pass."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Case, Exercise
from ddp_course.scaling import after_backward


class OverlappedStep(Exercise):
    """The step's time from buckets that fill up during backward, and the efficiency that follows."""

    name = "overlapped_step"
    lesson, section = "04", 8
    title = "predict a step with overlap"
    minutes, difficulty = 10, 2
    tested = "communication hidden whole, in part and not at all; even and uneven buckets; no bucket"
    worlds = (1,)
    stub = '''\
def step_seconds(forward, backward, buckets):
    """Seconds from the start of a step until the gradient is there on all ranks.

    buckets: a list of (full, seconds) in the order of sending: when the bucket is full, in seconds from the start of
    the backward pass, and how long its all-reduce takes. An all-reduce waits for its bucket and for the one before it.
    """
    raise NotImplementedError


def efficiency(forward, backward, buckets):
    """The share of the step in which the GPU computes: what is left of 1 under weak scaling."""
    raise NotImplementedError
'''
    hints = (
        "Follow the network through the step. When can it begin with the first bucket? When with the second?",
        "Keep one number: when the network is free again. An all-reduce begins at the later of two moments.",
        "The step is not over before backward is, even if the network has finished: again the later of two moments.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        def whole(low: int, high: int) -> float:
            return float(pick.randint(low, high))

        backward, unit = whole(30, 50), whole(2, 9)
        mixed = [(10 * unit, 14 * unit), (20 * unit, 14 * unit), (36 * unit, 10 * unit), (40 * unit, 5 * unit)]
        fast = [(backward * (i + 1) / 4, whole(1, 4)) for i in range(4)]
        slow = [(backward * (i + 1) / 4, whole(20, 40)) for i in range(4)]
        uneven = [(4.0, whole(15, 20)), (10.0, 3.0), (backward - 4, 2.0), (backward, 1.0)]
        early = [(2.0, 3.0), (9.0, whole(2, 5))]
        lists = {"fast links": fast, "slow links": slow, "uneven buckets": uneven, "early buckets": early, "none": []}
        first = {"forward": 20 * unit, "backward": 40 * unit, "buckets": mixed, "what": "that works out four buckets"}
        return [first] + [
            {"forward": whole(10, 25), "backward": backward, "buckets": buckets, "what": f"that works out {name}"}
            for name, buckets in lists.items()
        ]

    def expected(self, case: Case, rank: int) -> Any:
        forward, backward, buckets = case["forward"], case["backward"], case["buckets"]
        compute, sent = forward + backward, sum(seconds for _, seconds in buckets)
        step = compute + after_backward(buckets, backward)
        last = buckets[-1][1] if buckets else 0.0
        busy = 0.0
        for full, seconds in buckets:
            busy = max(busy, full) + seconds

        same = [len(buckets) * seconds for _, seconds in buckets]  # as if all were like one of them

        def both(seconds: float) -> dict[str, float]:
            return {"step_seconds": seconds}

        return {
            "value": {"step_seconds": step, "efficiency": compute / step},
            "known": [
                [both(compute + sent), "That hides nothing: every all-reduce comes after the backward pass."],
                [
                    both(forward + max(backward, sent)),
                    "That hides all that fits. But no bucket travels before it is full, and the last one is full last.",
                ],
                [both(compute), "That hides everything, the last bucket too, which is full when backward ends."],
                [both(compute + last), "That leaves the last bucket only. Is the network through with the others?"],
                [
                    both(forward + max([backward, *[full + seconds for full, seconds in buckets]])),
                    "Each bucket travels alone here. An all-reduce waits for the one before it.",
                ],
                [both(forward + busy), "The network has finished, but the backward pass has not."],
                [both(step - forward), "The forward pass belongs to the step too."],
                *[
                    [both(seconds), "That is one bucket's time for each of them. They take different times."]
                    for total in same
                    for seconds in (compute + total, forward + max(backward, total))
                ],
                [{"efficiency": 100 * compute / step}, "Those are percent. The share is a number from 0 to 1."],
                [{"efficiency": (step - compute) / step}, "That is the share in which the GPU waits."],
                [{"efficiency": step / compute}, "That is above 1: turn the quotient around."],
                [{"efficiency": backward / step}, "In the forward pass the GPU computes too."],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        given = case["forward"], case["backward"]
        return {
            name: plain(getattr(answer, name)(*given, [tuple(bucket) for bucket in case["buckets"]]))
            for name in ("step_seconds", "efficiency")
        }
