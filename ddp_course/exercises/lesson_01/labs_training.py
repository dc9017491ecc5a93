"""Lesson 1, break-it labs: training that runs, and is not the training of one process."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Lab, Option, Question
from ddp_course.exercises.compare import join


class SamplerLeftOut(Lab):
    """Every rank trains on everything."""

    name = "sampler_left_out"
    lesson, section = "01", 4
    title = "the sampler left out"
    minutes, difficulty = 4, 1
    tested = "each sample on one rank, once; another order in each epoch"
    options = "--nproc-per-node 2 --lab"
    broken = """\
import torch.distributed as dist
from torch.utils.data import DataLoader

dist.init_process_group()
seen = []
for batch in DataLoader(range(8), batch_size=2):
    seen += batch.tolist()
print(f"{len(seen)} of 8 samples: {seen}")
dist.destroy_process_group()
"""
    question = Question(
        "Two ranks share an epoch of 8 samples, and an epoch takes as long as with one rank. Why?",
        (
            Option(
                "The ranks wait for each other after every batch",
                "There is not one collective in this loop to wait in.",
            ),
            Option(
                "Two processes cannot read one data set at the same time",
                "They can, and here each has a copy of its own.",
            ),
            Option(
                "A batch of 2 is too small to be split",
                "Nothing splits batches. Samples are shared out before there are batches.",
            ),
            Option(
                "A DataLoader knows nothing of ranks: without a sampler each rank goes through all 8",
                "Yes. Averaged gradients of equal batches are the gradient of one rank: N ranks do the work of one.",
            ),
        ),
        "d",
    )
    stub = '''\
from torch.utils.data import DataLoader, DistributedSampler


def epochs_of(data, batch_size, epochs):
    """Returns a list with, for each epoch from 0 on, the list of this rank's batches as a
    DataLoader gives them.

    All ranks together see each sample of data once in an epoch, shuffled another way in each
    epoch.
    """
    raise NotImplementedError
'''
    hints = (
        "Who has to know how many ranks there are, and which of them this one is?",
        "DataLoader(data, batch_size, sampler=…) takes the order of the samples from the sampler.",
        "DistributedSampler(data) asks the process group for rank and world size. Its order changes when it is told "
        "the epoch: set_epoch.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [{"n": world * pick.randint(4, 6), "batch": pick.randint(2, 3), "epochs": 3} for _ in range(2)]

    def expected(self, case: Case, rank: int) -> Any:
        return {}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        return plain(answer.epochs_of([100 + i for i in range(case["n"])], case["batch"], case["epochs"]))

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        n, world, epochs = case["n"], case["world"], case["epochs"]
        orders: list[list[list[int]]] = []
        for rank, one in enumerate(seen):
            if not _is_batches(one):
                return f"rank {rank} returned no list of epochs, each a list of batches of samples."
            if len(one) != epochs:
                return f"rank {rank} returned {len(one)} epochs; asked for are {epochs}."
            orders.append([[sample for batch in epoch for sample in batch] for epoch in one])
            if sizes := {len(batch) for epoch in one for batch in epoch} - set(range(1, case["batch"] + 1)):
                return f"rank {rank} has batches of {join(sorted(sizes))} samples; the batch size is {case['batch']}."
        for epoch in range(epochs):
            together = sorted(sample for rank in orders for sample in rank[epoch])
            if together != [100 + i for i in range(n)]:
                return _counts(orders, epoch, n, together)
        if odd := [r for r in range(world) if len(orders[r][0]) != n // world]:
            return f"rank {odd[0]} has {len(orders[odd[0]][0])} samples; {n} over {world} ranks are {n // world} each."
        if any(rank[0] == rank[1] for rank in orders):
            return "each sample is seen once, but every epoch has the same order. Who told the sampler the epoch?"
        if orders[0][0] == sorted(orders[0][0]):
            return "each sample is seen once, but in the order of the data: it is not shuffled."
        return None


def _counts(orders: list[list[list[int]]], epoch: int, n: int, together: list[int]) -> str:
    seen = len(set(together))
    text = f"in epoch {epoch} the ranks saw {len(together)} samples, {seen} different ones, of {n}."
    if all(sorted(rank[epoch]) == sorted(orders[0][epoch]) for rank in orders):
        text += "\nEvery rank saw the same samples: nobody shared them out."
    elif seen < n:
        text += "\nThe ranks shuffle in different ways, so some samples come twice and some never."
    return text


def _is_batches(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(epoch, list) and all(isinstance(batch, list) for batch in epoch) for epoch in value
    )


class SumLoss(Lab):
    """Averaged gradients of a summed loss."""

    name = "sum_loss"
    lesson, section = "01", 4
    title = "a summed loss, averaged"
    minutes, difficulty = 4, 1
    tested = "equal and unequal shards; the averaged gradient is that of one process"
    options = "--nproc-per-node 2 --lab"
    broken = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
inputs = torch.tensor([1.0, 2.0, 3.0, 4.0])
weight = torch.ones((), requires_grad=True)
loss = (weight * inputs[rank::world]).square().sum()
loss.backward()
dist.all_reduce(weight.grad)
weight.grad /= world
print(f"gradient {weight.grad.item()}; one process has {2 * inputs.square().sum().item()}")
dist.destroy_process_group()
"""
    question = Question(
        "The gradients are averaged over the ranks, as DDP does it, and come out as half of what they should be. Why?",
        (
            Option(
                "Rank 0 and rank 1 have different samples",
                "They should. The gradient of a sum is the sum of the parts' gradients, whoever has them.",
            ),
            Option(
                "all_reduce adds in float32 and rounds",
                "Rounding changes the seventh digit, and this is a factor of exactly 2.",
            ),
            Option(
                "A sum over all samples is the sum of the ranks' sums, and this divides it by their number",
                "Yes. Averaging fits a mean loss over equal shards. For a sum it is 1/N too small.",
            ),
            Option("square() was applied before the sum", "It is in the one process too: that is the loss."),
        ),
        "c",
    )
    stub = '''\
import torch
import torch.distributed as dist


def loss_to_average(outputs, targets):
    """The loss on this rank's samples on which to call backward(), where the gradients are then
    averaged over the ranks, so that they become those of (outputs - targets).square().sum() over
    all samples of all ranks."""
    raise NotImplementedError
'''
    hints = (
        "The averaging divides by a number that every rank knows. What undoes a division?",
        "Multiply the sum loss before backward; a gradient grows with its loss.",
        "The number is the world size: dist.get_world_size().",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        shards = [[pick.randint(2, 5)] * world, pick.sample(range(1, 8), world)]
        return [{"samples": one, "what": f"with {join(one)} samples"} for one in shards]

    def expected(self, case: Case, rank: int) -> Any:
        import torch

        world, samples = case["world"], case["samples"]
        each = [self._gradient(case, r, lambda y, t: (y - t).square().sum()) for r in range(world)]
        total = torch.stack(each).sum(0)
        means = torch.stack([g / n for g, n in zip(each, samples, strict=True)]).sum(0)
        return {
            "value": total.tolist(),
            "known": [
                [(total / world).tolist(), f"That is 1/{world} of it: the averaging divided a sum by {world}."],
                [(means / world).tolist(), "That is the gradient of a mean loss; asked for is the sum's."],
                [(total / sum(samples)).tolist(), "That is the gradient of a mean loss; asked for is the sum's."],
                [(total * world).tolist(), f"That is {world}× too much: the averaging undoes one factor only."],
                [(2 * total / world).tolist(), f"2 / {world} of it. Is the number of ranks always 2?"],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        import torch.distributed as dist

        from ddp_course.exercises.ranks import plain

        grad = self._gradient(case, rank, answer.loss_to_average)
        dist.all_reduce(grad)
        return plain(grad / case["world"])

    def _gradient(self, case: Case, rank: int, loss: Any) -> Any:
        """The gradient of `loss` of this rank's samples under a linear model."""
        from ddp_course.exercises.ranks import randn

        n, seed = case["samples"][rank], case["seed"]
        weight = randn(seed, 3).requires_grad_()
        loss(randn(seed + 10 + rank, n, 3) @ weight, randn(seed + 20 + rank, n)).backward()
        return weight.grad
