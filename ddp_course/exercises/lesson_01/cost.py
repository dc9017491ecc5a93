"""Lesson 1, section 6: the time of an all-reduce, predicted."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.cost import busbw, ring_seconds
from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import compare

_SIZES = [1 << power for power in range(10, 25, 2)]


class AllReduceCost(Exercise):
    """The ring's time from α and β, α and β from times, and busbw."""

    name = "all_reduce_cost"
    lesson, section = "01", 6
    title = "predict what an all-reduce takes"
    minutes, difficulty = 10, 2
    tested = "times from α and β, α and β from times, busbw; 2 to 1,024 ranks"
    tolerance = 1e-6
    worlds = (1,)
    stub = '''\
def ring_time(size, ranks, alpha, beta):
    """Seconds of a ring all-reduce of size bytes. A step costs alpha seconds, and beta seconds
    for each byte that a rank sends in it."""
    raise NotImplementedError


def fit(sizes, seconds, ranks):
    """sizes: bytes; seconds: how long a ring all-reduce of each took. Returns (alpha, beta)."""
    raise NotImplementedError


def bus_bandwidth(size, ranks, seconds):
    """busbw of an all-reduce in bytes per second, as nccl-tests defines it: algbw × 2(N−1)/N."""
    raise NotImplementedError
'''
    hints = (
        "How many steps has the ring, and how many bytes does a rank send in each of them? The time is the sum of "
        "two terms, one of which does not depend on the size.",
        "So the time is a straight line over the size: intercept + slope × size. np.polyfit(sizes, seconds, 1) gives "
        "both. Which of them is made of alpha, which of beta?",
        "The intercept is 2(N−1)·alpha, the slope 2(N−1)/N·beta: solve each for its letter. algbw is the size divided "
        "by the time.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [
            {
                "ranks": ranks,
                "alpha": pick.uniform(2e-6, 2e-4),
                "beta": pick.uniform(2e-11, 2e-9),
                "size": pick.randint(1 << 10, 1 << 24),
                "what": f"that works out {ranks:,} ranks",
            }
            for ranks in (4, 2, pick.randint(5, 16), 1024)
        ]

    def expected(self, case: Case, rank: int) -> Any:
        n, a, b, size = (case[key] for key in ("ranks", "alpha", "beta", "size"))
        seconds = ring_seconds(size, n, a, b)
        steps = 2 * (n - 1)
        return {
            "value": {"ring_time": seconds, "fit": [1.0, 1.0], "bus_bandwidth": busbw(size, n, seconds)},
            "known": [
                [{"ring_time": a + b * size}, "That is one message of the whole size: the ring has 2(N−1) steps."],
                [
                    {"ring_time": steps * (a + b * size)},
                    "That sends the whole tensor in every step. A step carries one chunk, the N-th part.",
                ],
                [{"ring_time": steps / 2 * (a + b * size / n)}, "That is one round of the ring. It goes around twice."],
                [
                    {"ring_time": a + steps * b * size / n},
                    "That pays alpha once. Each of the 2(N−1) steps waits for its own latency.",
                ],
                [
                    {"fit": [steps, steps / n]},
                    "Those are intercept and slope of the whole all-reduce; alpha and beta belong to one step.",
                ],
                [{"fit": [steps, 1.0]}, "Your alpha is that of all steps together, not of one."],
                [{"fit": [1.0, steps / n]}, "Your beta still holds the factor 2(N−1)/N."],
                [{"bus_bandwidth": size / seconds}, "That is algbw. busbw multiplies it by 2(N−1)/N."],
                [{"bus_bandwidth": size / seconds / (steps / n)}, "You divided by 2(N−1)/N: busbw multiplies by it."],
                [{"bus_bandwidth": size / seconds * (n - 1) / n}, "(N−1)/N is the factor of a reduce-scatter."],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        n, a, b, size = (case[key] for key in ("ranks", "alpha", "beta", "size"))
        times = [ring_seconds(s, n, a, b) for s in _SIZES]
        found = plain(answer.fit(list(_SIZES), times, n))
        pair = isinstance(found, list) and len(found) == 2 and all(isinstance(x, (int, float)) for x in found)
        return {
            "ring_time": plain(answer.ring_time(size, n, a, b)),
            "fit": [found[0] / a, found[1] / b] if pair else found,
            "bus_bandwidth": plain(answer.bus_bandwidth(size, n, ring_seconds(size, n, a, b))),
        }

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        wrong = compare(expected["value"], seen, expected["known"], self.tolerance)
        return wrong.replace("fit: ", "fit, as multiples of the right alpha and beta: ") if wrong else None
