"""Lesson 2, break-it labs: ranks that do not call the same collectives."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Lab, Option, Question
from ddp_course.exercises.compare import compare, join


class RankZeroOnly(Lab):
    """A collective that only rank 0 calls."""

    name = "rank_0_only"
    lesson, section = "02", 1
    title = "a collective under `if rank == 0`"
    minutes, difficulty = 4, 1
    tested = "the mean loss on rank 0, the loss unchanged"
    options = "--nproc-per-node 2 --timeout 10 --no-check"
    broken = """\
import torch
import torch.distributed as dist

dist.init_process_group()
rank = dist.get_rank()
for step in range(2):
    gradient = torch.tensor([10.0 * (step + 1)])  # alike on both ranks: the means are 10 and 20
    loss = torch.tensor([1.0 + rank])             # 1 and 2: the mean is 1.5
    if rank == 0:                                 # only rank 0 logs
        dist.all_reduce(loss)
        print(f"step {step}: mean loss {loss.item() / 2}")
    dist.all_reduce(gradient)
    print(f"step {step}: mean gradient {gradient.item() / 2}")
dist.destroy_process_group()
"""
    question = Question(
        "Rank 0 logs a mean loss of 5.5, and both ranks step with wrong gradients. Why?",
        (
            Option(
                "`all_reduce` sums, and the program divides by 2 in the wrong place",
                "Dividing the sum by 2 is right: with both losses in it, (1 + 2) / 2 gives 1.5. Look at what else "
                "5.5 can be half of.",
            ),
            Option(
                "Rank 0's loss was added to rank 1's gradient: a rank's n-th collective meets the other's n-th",
                "Yes: (1 + 10) / 2 = 5.5. Collectives are matched by their order alone. Rank 1's first one is the "
                "gradient's, rank 0's first one is the loss's; from there on they are one apart.",
            ),
            Option(
                "Rank 0 prints before rank 1 has computed its loss",
                "Printing has no part in it: an all-reduce returns only when every rank has contributed.",
            ),
            Option(
                "gloo computes with too little precision",
                "These numbers are exact in float32, and 5.5 against 1.5 is no rounding error.",
            ),
        ),
        "b",
    )
    stub = '''\
import torch
import torch.distributed as dist


def mean_loss(loss):
    """loss: this rank's loss, a tensor with one element, which must not change.

    Returns the mean loss over the ranks, as a number, on rank 0, and None on every other rank.
    """
    raise NotImplementedError
'''
    hints = (
        "Which lines must every rank run, and which ones only the rank that logs?",
        "Move the collective out of the `if`; what stays inside is what happens with its result.",
        "A clone, an all-reduce on every rank, a division by the world size; then rank 0 returns the number.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [{}, {}]

    def expected(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import randn

        losses = randn(case["seed"], case["world"]).tolist()
        world, total = case["world"], sum(losses)
        others = [None] * (world - 1)
        return {
            "value": {"per rank": [total / world, *others]},
            "known": [
                [{"per rank": [total, *others]}, f"{{seen}} is the sum, {world}× the mean."],
                [{"per rank": [losses[0], *others]}, "That is rank 0's own loss."],
                [total / world, "The value is right, but only rank 0 was to return it."],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain, randn

        loss = randn(case["seed"], case["world"])[rank : rank + 1].clone()
        before = loss.item()
        result = plain(answer.mean_loss(loss))
        return {
            "value": result[0] if isinstance(result, list) and len(result) == 1 else result,
            "kept": loss.item() == before,
        }

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := super().judge(case, expected, [one["value"] for one in seen], calls):
            return wrong
        if not all(one["kept"] for one in seen):
            return "the mean is right, but loss itself has changed: all_reduce works in place."
        return None


class UnevenBatches(Lab):
    """One rank has a batch more than the other."""

    name = "uneven_batches"
    lesson, section = "02", 2
    title = "5 batches against 4"
    minutes, difficulty = 8, 2
    tested = "weights after training on the common batches, and on all of them with join"
    options = "--nproc-per-node 2 --timeout 10 --no-check"
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
    """The same on all batches: while some ranks have none left, the others go on, helped by model.join()."""
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


class EarlyStop(Lab):
    """Each rank decides for itself when to stop."""

    name = "early_stop"
    lesson, section = "02", 6
    title = "early stop on one rank"
    minutes, difficulty = 4, 1
    tested = "no rank, one rank, some ranks and all ranks wanting to stop"
    options = "--nproc-per-node 2 --timeout 10 --no-check"
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
    """stop_here: whether this rank wants to stop. Returns True, on every rank, as soon as any rank wants to."""
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
    return f"{join(ranks)} want{'s' * (len(ranks) == 1)} to stop"


def _net(case: Case) -> Any:
    from torch import nn

    from ddp_course.exercises.ranks import seeded

    return seeded(case["seed"], lambda: nn.Linear(3, 2))
