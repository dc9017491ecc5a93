"""Lesson 4, section 4: which samples are left when a run goes on with another number of ranks."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import show


class SamplesLeft(Exercise):
    """The position in the data is a number of global batches: no rank is in it."""

    name = "samples_left"
    lesson, section = "04", 4
    title = "which samples are left"
    minutes, difficulty = 8, 2
    tested = "going on with 1 to 4 ranks, at the start, in the middle and at the end of an epoch"
    worlds = (1,)
    stub = '''\
def samples_left(order, step, batch_size, world, rank):
    """order: the epoch's shuffled list of all sample ids, the same on every rank. In each step, all ranks together take
    the next batch_size ids of it, in turn: rank 0 the first id, rank 1 the second, and so on.

    `step` steps of this epoch are done, on whatever number of ranks. Returns the list of ids that `rank` still takes
    in this epoch when the run goes on with `world` ranks. A batch that is not full is dropped.
    batch_size is a multiple of world.
    """
    raise NotImplementedError
'''
    hints = (
        "How many ids are used up after `step` steps? The number of ranks that used them up does not matter.",
        "What is left of the list begins there and ends with the last full batch.",
        "Every world-th id of what is left, beginning with the rank's own: a slice with a step.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        cases = []
        for ranks, batch, where in (
            (2, 4, "middle"),
            (3, 6, "middle"),
            (4, 4, "start"),
            (1, 3, "middle"),
            (2, 4, "end"),
        ):
            steps = pick.randint(4, 6)
            order = list(range(steps * batch + pick.randint(1, batch - 1)))
            pick.shuffle(order)
            step = {"start": 0, "middle": pick.randint(1, steps - 2), "end": steps}[where]
            what = (
                f"that works out: {len(order)} ids, batches of {batch}, {step} of {steps} steps done, on with {ranks}"
            )
            cases.append({"order": order, "step": step, "batch": batch, "ranks": ranks, "what": what})
        return cases

    def expected(self, case: Case, rank: int) -> Any:
        return [_taken(case, rank) for rank in range(case["ranks"])]

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        return [
            plain(answer.samples_left(list(case["order"]), case["step"], case["batch"], case["ranks"], rank))
            for rank in range(case["ranks"])
        ]

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        for rank, (right, got) in enumerate(zip(expected, seen[0], strict=True)):
            if got != right:
                return f"rank {rank}: expected {show(right)}   you returned {show(got)}{_why(case, seen[0])}"
        return None


def _taken(case: Case, rank: int) -> list[int]:
    """Batch by batch."""
    order, batch = case["order"], case["batch"]
    starts = range(case["step"] * batch, len(order) - batch + 1, batch)
    return [order[i] for start in starts for i in range(start + rank, start + batch, case["ranks"])]


def _why(case: Case, given: list[Any]) -> str:
    order, step, batch, ranks = case["order"], case["step"], case["batch"], case["ranks"]
    full = len(order) // batch * batch
    known = [
        ([order[step * batch :][r::ranks] for r in range(ranks)], "The last batch is not full, and is dropped."),
        *_usual(case, order[:full]),
        *_usual(case, order),
    ]
    texts = [why for ids, why in known if ids == given]
    return "\n" + texts[0] if texts else ""


def _usual(case: Case, ids: list[int]) -> list[tuple[list[list[int]], str]]:
    """Usual wrong answers out of these ids, each with its explanation."""
    step, batch, ranks = case["step"], case["batch"], case["ranks"]
    left = ids[step * batch :]
    share, each = len(left) // ranks, batch // ranks

    def every(slices: Any) -> list[list[int]]:
        return [list(slices(rank)) for rank in range(ranks)]

    return [
        (every(lambda r: ids[r::ranks]), "Those are all ids of the epoch: the first steps come a second time."),
        (
            every(lambda r: ids[r::ranks][step * batch :]),
            "A rank has not taken step · batch_size ids: all ranks together have.",
        ),
        (every(lambda r: ids[r::ranks][step:]), "In a step a rank takes more than one id."),
        (every(lambda r: left[batch:][r::ranks]), "One batch is left out. `step` counts the steps that are done."),
        (
            every(lambda r: left[r * share : (r + 1) * share]),
            "Those are whole stretches of the list; ranks take turns, id by id.",
        ),
        (
            every(lambda r: [one for at, one in enumerate(left) if at % batch // each == r]),
            "Those are stretches of each batch; ranks take turns, id by id.",
        ),
        (every(lambda r: left), "Every rank takes all of them here."),
    ]
