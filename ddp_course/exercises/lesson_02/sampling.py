"""Lesson 2, section 2: who sees which sample."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import rank_list


class ExactEvaluation(Exercise):
    """Accuracy over every sample, each counted once, with the work shared."""

    name = "exact_evaluation"
    lesson, section = "02", 2
    title = "evaluate 10 samples on 4 ranks, exactly"
    minutes, difficulty = 8, 2
    tested = "10 samples, more, and fewer samples than ranks"
    tolerance = 1e-6  # a share computed in float32 is right
    stub = '''\
import torch
import torch.distributed as dist


def accuracy(model, inputs, targets):
    """inputs (n, features) and targets (n,) are the whole test set, the same on every rank;
    model(x) gives logits.

    Returns, on every rank, the share of the n samples whose largest logit is at their target, as a
    number. No rank runs the model on more than ceil(n / world size) samples.
    """
    raise NotImplementedError
'''
    hints = (
        "DistributedSampler repeats samples until every rank has as many as the others: fine for training, wrong "
        "for a count. Take the shard yourself: which indices has rank r of N if nothing is repeated?",
        "inputs[rank::world_size] gives every sample to exactly one rank. Some ranks get one sample more than "
        "others, so their shares must not weigh the same.",
        "Let each rank count its hits, and add the counts of all ranks with one all-reduce. What they are divided "
        "by is the number of all samples. A rank without any sample still has to take part.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        sizes = [10 if 10 % world else 11, world * pick.randint(2, 4) + 1, world * 3, world - 1]
        return [{"n": n, "what": f"and {n} sample{'s' * (n > 1)}"} for n in sizes]

    def expected(self, case: Case, rank: int) -> Any:
        model, inputs, targets = self._data(case)
        hits = (model(inputs).argmax(1) == targets).tolist()
        n, world = case["n"], case["world"]
        shards = [list(range(r, n, world)) for r in range(world)]
        per_rank = -(-n // world)
        padded = [[i % n for i in range(r, per_rank * world, world)] for r in range(world)]

        def share(indices: list[int]) -> float:
            return sum(hits[i] for i in indices) / len(indices) if indices else 0.0

        def mean_of_shares(parts: list[list[int]]) -> float:
            return sum(map(share, parts)) / world

        return {
            "value": share(list(range(n))),
            "rows": per_rank,
            "known": [
                [
                    share([i for part in padded for i in part]),
                    f"{{seen}} counts {per_rank * world} samples: DistributedSampler repeated {per_rank * world - n} "
                    "to give every rank as many.",
                ],
                [
                    mean_of_shares(shards),
                    "{seen} is the mean of the ranks' shares: a rank with fewer samples weighs as much as the others.",
                ],
                [share(list(range(n - n % world))), f"{{seen}} leaves {n % world} samples out: drop_last drops them."],
                [
                    {"per rank": [share(part) for part in shards]},
                    "Each rank returned the share of its own samples: nothing was added up over the ranks.",
                ],
                [
                    {"per rank": [share(part) for part in padded]},
                    "Each rank returned the share of its own samples: nothing was added up over the ranks.",
                ],
                [sum(hits), "{seen} is the number of hits; it still has to be divided by the number of samples."],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        model, inputs, targets = self._data(case)
        rows = []
        model.register_forward_pre_hook(lambda _, args: rows.append(len(args[0])))
        return {"value": plain(answer.accuracy(model, inputs, targets)), "rows": sum(rows)}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := super().judge(case, expected, [one["value"] for one in seen], calls):
            return wrong
        if over := [rank for rank, one in enumerate(seen) if one["rows"] > expected["rows"]]:
            return (
                f"the value is right, but {rank_list(over)} ran the model on {seen[over[0]]['rows']} samples; "
                f"{expected['rows']} would do.\nShare the work: more ranks must make an evaluation faster."
            )
        return None

    def _data(self, case: Case) -> Any:
        """A model that is right on about half of the samples."""
        import torch

        from ddp_course.exercises.ranks import randn, seeded

        model = seeded(case["seed"], lambda: torch.nn.Linear(4, 3))
        inputs = randn(case["seed"] + 1, case["n"], 4)
        coin = torch.rand(case["n"], generator=torch.Generator().manual_seed(case["seed"] + 2)) < 0.5
        best = model(inputs).argmax(1)
        return model, inputs, torch.where(coin, best, (best + 1) % 3)
