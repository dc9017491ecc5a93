"""Lesson 2, break-it lab: ranks that decide for themselves when to stop."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Case, Lab, Option, Question
from ddp_course.exercises.compare import join


class EarlyStop(Lab):
    """Each rank decides for itself when to stop."""

    name = "early_stop"
    lesson, section = "02", 6
    title = "early stop on one rank"
    minutes, difficulty = 4, 1
    tested = "no rank, one rank, some ranks and all ranks wanting to stop"
    options = "--nproc-per-node 2 --timeout 10 --lab"
    broken = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group()
rank = dist.get_rank()
model = DDP(torch.nn.Linear(4, 1))
losses = [[0.9, 0.7, 0.6, 0.5], [0.9, 0.8, 0.8, 0.8]][rank]  # each rank's own validation shard
best = 1.0
for epoch in range(4):
    model(torch.ones(2, 4)).mean().backward()
    if losses[epoch] >= best:
        print(f"epoch {epoch}: no better than {best}, stop")
        break
    best = losses[epoch]
    print(f"epoch {epoch}: {best}")
dist.barrier()
print("saved")
dist.destroy_process_group()
"""
    question = Question(
        "Why does this training never end?",
        (
            Option(
                "Rank 1's loss stopped falling, so its gradients became zero",
                "Zero gradients are sent like all others. And rank 1 sends none any more.",
            ),
            Option(
                "`best` is not shared, so rank 0 compares with an old value",
                "Each rank compares with its own best value, as written. That they decide apart from each other is the "
                "trouble, not the value itself.",
            ),
            Option(
                "The barrier needs a time limit",
                "With one, the run would end with an error instead of hanging. The ranks would still disagree.",
            ),
            Option(
                "Rank 1 left the loop alone: rank 0's next backward waits for it",
                "Yes. Whether to go on must be one decision of all ranks, since each further step needs all of them.",
            ),
        ),
        "d",
    )
    stub = '''\
import torch
import torch.distributed as dist


def should_stop(stop_here):
    """stop_here: whether this rank wants to stop. Returns True, on every rank, as soon as any rank
    wants to."""
    raise NotImplementedError
'''
    hints = (
        "Every rank has to learn what every other rank wants. Which collective tells all ranks something about all?",
        "Booleans as numbers: what do the sum and the maximum of 0s and 1s tell you?",
        "An all-reduce of a tensor with one element, called by every rank in every epoch, whatever it wants.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        chosen = pick.randrange(1, world)
        some = [rank in (0, chosen) for rank in range(world)]
        last = [rank == chosen for rank in range(world)]
        wishes = [[False] * world, [rank == 0 for rank in range(world)], last, some, [True] * world]
        return [{"wishes": w, "what": f"of which {_who(w)}"} for w in wishes]

    def expected(self, case: Case, rank: int) -> Any:
        wishes = case["wishes"]
        return {
            "value": any(wishes),
            "known": [
                [{"per rank": wishes}, "Each rank got its own wish back: nothing was exchanged."],
                [wishes[0], "Only rank 0's wish counted."],
                [all(wishes), "Your ranks stop only when all of them want to; one is enough."],
                [not any(wishes), "It is the other way round."],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        result = plain(answer.should_stop(case["wishes"][rank]))
        result = result[0] if isinstance(result, list) and len(result) == 1 else result
        return None if result is None else bool(result)


def _who(wishes: list[bool]) -> str:
    ranks = [rank for rank, wish in enumerate(wishes) if wish]
    if len(ranks) in (0, len(wishes)):
        return "all want to stop" if ranks else "none wants to stop"
    return f"rank{'s' * (len(ranks) > 1)} {join(ranks)} want{'s' * (len(ranks) == 1)} to stop"
