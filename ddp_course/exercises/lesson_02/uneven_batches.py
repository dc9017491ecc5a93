"""Lesson 2, break-it lab: ranks with unequal numbers of batches."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Lab, Option, Question
from ddp_course.exercises.compare import compare, join


class UnevenBatches(Lab):
    """One rank has a batch more than the other."""

    name = "uneven_batches"
    lesson, section = "02", 2
    title = "5 batches against 4"
    minutes, difficulty = 8, 2
    tested = "weights after training on the common batches, and on all of them with join"
    options = "--nproc-per-node 2 --timeout 10 --lab"
    broken = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group()
rank = dist.get_rank()
model = DDP(torch.nn.Linear(4, 1))
batches = torch.ones(5 - rank, 2, 4)  # 9 batches: 5 for rank 0, 4 for rank 1
for number, batch in enumerate(batches):
    model(batch).mean().backward()
    print(f"batch {number} done")
dist.barrier()
print("epoch finished")
dist.destroy_process_group()
"""
    question = Question(
        "Both ranks finish 4 batches, then nothing happens any more. What is each of them waiting for?",
        (
            Option(
                "Rank 1 waits for data: its loader is exhausted",
                "A loader that has nothing left ends the loop; it does not wait. Rank 1 has left the loop.",
            ),
            Option(
                "Rank 0 waits in the all-reduce of batch 5, rank 1 in the barrier",
                "Yes. Rank 0's fifth backward calls an all-reduce that rank 1 never will, since rank 1 is past its "
                "loop, in a barrier that rank 0 never reaches.",
            ),
            Option(
                "Both wait in the barrier, because gloo has no barrier on CPUs",
                "gloo has one, and a barrier that both ranks have reached ends. One of them is not there.",
            ),
            Option(
                "Both wait in the backward of batch 4: the bucket is not full",
                "Both printed that batch 3, the fourth, was done; and DDP sends its last bucket full or not.",
            ),
        ),
        "b",
    )
    stub = '''\
import torch
import torch.distributed as dist
import torch.nn.functional as F


def train_common(model, optimizer, batches):
    """batches: this rank's list of (inputs, targets); ranks may have unequal numbers of them.

    Trains the DDP model with F.mse_loss, one step a batch, on as many batches as every rank has.
    """
    raise NotImplementedError


def train_all(model, optimizer, batches):
    """The same on all batches: while some ranks have none left, the others go on, helped by
    model.join()."""
    raise NotImplementedError
'''
    hints = (
        "For the first repair the ranks have to agree on a number before the loop starts. Which one?",
        "An all-reduce of len(batches) with dist.ReduceOp.MIN gives it. For the second repair, DDP has a context "
        "manager that answers the collectives of the ranks that still train.",
        "`with model.join():` goes around the whole training loop, on every rank.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        counts = pick.sample(range(1, 7), world)
        return [{"counts": counts, "what": f"with {join(counts)} batches"}]

    def expected(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import simulate, values

        world, least, most = case["world"], min(case["counts"]), max(case["counts"])

        def after(steps: int) -> dict[str, Any]:
            batches = [
                [self._batch(case, r, step) if step < case["counts"][r] else None for r in range(world)]
                for step in range(steps)
            ]
            return values(simulate([_net(case) for _ in range(world)], batches)[case["counts"].index(most)])

        common, everything = after(least), after(most)
        return {
            "value": {"train_common": common, "train_all": everything},
            "known": [
                [{"train_common": everything, "train_all": common}, "That is the training on the other set of batches."]
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from torch.nn.parallel import DistributedDataParallel

        from ddp_course.exercises.ranks import sgd, values

        result = {}
        for name in ("train_common", "train_all"):
            net = _net(case)
            model = DistributedDataParallel(net)
            batches = [self._batch(case, rank, step) for step in range(case["counts"][rank])]
            getattr(answer, name)(model, sgd(model), batches)
            result[name] = values(net)
        return result

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        for name, value in expected["value"].items():
            known = [(wrong[name], why) for wrong, why in expected["known"]]
            if feedback := compare(value, [one[name] for one in seen], known):
                return f"{name}, {feedback}"
        return None

    def _batch(self, case: Case, rank: int, step: int) -> Any:
        from ddp_course.exercises.ranks import randn

        seed = case["seed"] + 20 * rank + step
        return randn(seed, 2, 3), randn(seed + 1000, 2, 2)


def _net(case: Case) -> Any:
    from torch import nn

    from ddp_course.exercises.ranks import seeded

    return seeded(case["seed"], lambda: nn.Linear(3, 2))
