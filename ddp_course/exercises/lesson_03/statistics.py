"""Lesson 3, section 2: the statistics that one process would find."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import join, per_rank


def sample_counts(pick: random.Random, world: int) -> tuple[list[int], list[int], list[int]]:
    """How many samples each rank has: equal, unequal, and one rank without any."""
    equal = [pick.randint(2, 4)] * world
    unequal = pick.sample(range(1, 7), world)
    empty = pick.sample(range(2, 7), world - 1)
    empty.insert(pick.randrange(world), 0)
    return equal, unequal, empty


def batches(case: Case, step: int = 0) -> list[Any]:
    """Each rank's batch in a step; the ranks differ in mean and in spread."""
    from ddp_course.exercises.ranks import randn

    shape = case["channels"], case["size"], case["size"]
    parts = [randn(case["seed"] + 10 * step + rank, n, *shape) for rank, n in enumerate(case["counts"])]
    return [(1 + rank) * part + 2 * rank - step for rank, part in enumerate(parts)]


class GlobalStatistics(Exercise):
    """Mean, variance and count over the ranks, from one collective."""

    name = "global_statistics"
    lesson, section = "03", 2
    title = "one mean, one variance"
    minutes, difficulty = 8, 2
    tolerance = 1e-10
    tested = "equal, unequal and empty batches, one collective"
    stub = '''\
import torch
import torch.distributed as dist


def global_statistics(x):
    """x: this rank's batch, (samples, channels, height, width). Ranks may have different numbers
    of samples, and some of them none.

    Returns, on every rank, what one process finds on the samples of all ranks: each channel's mean
    and biased variance, two tensors of shape (channels,), and the number of values behind them.
    One collective, of at most 2 * channels + 1 numbers a rank.
    """
    raise NotImplementedError
'''
    hints = (
        "Means cannot be added up over ranks, and neither can variances. Which three quantities can, and give both?",
        "Of each channel the sum and the sum of squares, and how many values went into them. The variance is the "
        "mean of the squares, less the square of the mean.",
        "Put all of them into one tensor with torch.cat, all-reduce that, and take it apart with split. Sums over "
        "dimensions 0, 2 and 3 leave the channels; an empty batch sums to 0 by itself.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        shape = {"channels": pick.randint(2, 4), "size": pick.randint(1, 3)}
        return [{"counts": n, "what": f"with {join(n)} samples", **shape} for n in sample_counts(pick, world)]

    def expected(self, case: Case, rank: int) -> Any:
        import torch

        parts = [part.transpose(0, 1).flatten(1) for part in batches(case)]
        values = torch.cat(parts, 1)
        count = values.shape[1]
        right = {"mean": values.mean(1), "variance": values.var(1, correction=0), "count": count}
        some = [part for part in parts if part.shape[1]]
        means, variances = (torch.stack([f(part) for part in some]).mean(0) for f in (_mean, _variance))
        samples = sum(case["counts"])
        return {
            "value": {name: _plain(value) for name, value in right.items()},
            "known": [
                [
                    {"mean": _plain(means)},
                    "That is the mean of the ranks' means: each rank weighs the same, however many samples it has.",
                ],
                [
                    {"mean": _plain(values.sum(1) / case["world"])},
                    "That is the sum, divided by the number of ranks instead of values.",
                ],
                [
                    {"mean": _plain(values.sum(1) / samples)},
                    "That is divided by the number of samples. Each sample brings height × width values of a channel.",
                ],
                [{"mean": per_rank([_plain(_mean(part)) for part in parts])}, "That is each rank's own mean."],
                [
                    {"variance": _plain(variances)},
                    "That is the mean of the ranks' variances. It misses how far the ranks' means lie apart.",
                ],
                [
                    {"variance": _plain(values.var(1))},
                    "That is the unbiased variance, divided by one less. Normalising takes the biased one.",
                ],
                [{"variance": _plain(values.square().mean(1))}, "The square of the mean is still to be taken off."],
                [{"variance": _plain(values.std(1, correction=0))}, "That is the standard deviation: not yet squared."],
                [{"count": samples}, "That counts samples. Each brings height × width values of a channel."],
                [{"count": per_rank([part.shape[1] for part in parts])}, "That is each rank's own number of values."],
                [
                    {"count": per_rank([part.shape[1] * case["world"] for part in parts])},
                    "That is each rank's own number, times the ranks. Others may have more values, or none.",
                ],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        x = batches(case)[rank]
        result = answer.global_statistics(x)
        if not isinstance(result, (tuple, list)) or len(result) != 3:
            return None
        mean, variance, count = map(plain, result)
        return {"mean": mean, "variance": variance, "count": _number(count)}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if None in seen:
            return "return three things: the means, the variances, the number of values."
        if wrong := super().judge(case, expected, seen, calls):
            return wrong
        return one_collective("", calls, 2 * case["channels"] + 1)


def one_collective(where: str, calls: list[list[Call]], most: int) -> str | None:
    """Feedback where right values took other than one collective, or more than `most` numbers a rank."""
    for sent in calls:
        if len(sent) != 1:
            names = ", ".join(name for name, _, _ in sent) or "none"
            return (
                f"the values are right, but {where}it took {len(sent)} collectives: {names}.\n"
                "One does, with everything in one tensor. Its start costs more than its few numbers."
            )
        if sum(sent[0][1]) > most:
            return f"the values are right, but {where}a rank sent {sum(sent[0][1])} numbers; {most} do."
    return None


def _mean(part: Any) -> Any:
    return part.mean(1)


def _variance(part: Any) -> Any:
    return part.var(1, correction=0)


def _number(count: Any) -> Any:
    """A count of one element, as a number."""
    return count[0] if isinstance(count, list) and len(count) == 1 else count


def _plain(value: Any) -> Any:
    from ddp_course.exercises.ranks import plain

    return plain(value)
