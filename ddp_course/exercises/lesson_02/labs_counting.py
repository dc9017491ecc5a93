"""Lesson 2, break-it labs: reductions that are too many, epochs that are all the same."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Lab, Option, Question
from ddp_course.exercises.compare import compare
from ddp_course.exercises.lesson_02.stepping import Accumulate


class NoSyncPlaces(Lab):
    """`no_sync` around the wrong lines."""

    name = "no_sync_places"
    lesson, section = "02", 6
    title = "4 reductions, 1, or 4 again: where `no_sync` stands"
    minutes, difficulty = 5, 1
    tested = "2 to 4 micro-batches; gradients equal to one process, sent once"
    options = "--nproc-per-node 2 --lab"
    broken = """\
import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group()
reductions = 0


def counting(state, bucket):
    global reductions
    reductions += 1
    sent = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return sent.then(lambda future: future.value()[0])


model = DDP(torch.nn.Linear(4, 1))
model.register_comm_hook(None, counting)
for micro_batch in range(4):
    last = micro_batch == 3
    loss = model(torch.ones(2, 4)).mean()
    with contextlib.nullcontext() if last else model.no_sync():
        loss.backward()
print(f"4 micro-batches, {reductions} reductions")
dist.destroy_process_group()
"""
    question = Question(
        "`no_sync` is around every backward but the last, and still there are 4 reductions. Why?",
        (
            Option(
                "`no_sync` needs an optimizer step to take effect",
                "It acts at once, on the passes inside it; the optimizer has no part in it.",
            ),
            Option(
                "A comm hook switches `no_sync` off",
                "The hook only counts. Without it there are 4 all-reduces too: the flight recorder shows them.",
            ),
            Option(
                "DDP decides in the forward pass whether the next backward exchanges, and the forwards are outside",
                "Yes. The forward arms the reducer, and by then it is too late: the whole of forward and backward "
                "belongs inside.",
            ),
            Option(
                "`no_sync` only delays the reductions: 4 are sent with the last backward",
                "Inside it gradients add up locally, and one reduction carries the sum of all micro-batches.",
            ),
        ),
        "c",
    )
    stub = '''\
import contextlib

import torch.nn.functional as F


def accumulate(model, micro_batches):
    """model is wrapped in DDP, its gradients are None. micro_batches: this rank's list of (inputs,
    targets).

    Adds up the gradients of F.mse_loss over the micro-batches, undivided, and averages over the
    ranks: once.
    """
    raise NotImplementedError
'''
    hints = (
        "Which two lines of the loop belong together, so that both see the same decision?",
        "Move the forward under the `with` line.",
        "All but the last micro-batch under model.no_sync(), forward and backward; the last one outside.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        counts = [4, pick.randint(2, 3)]
        return [{"micro": n, "batch": pick.randint(1, 3), "what": f"with {n} micro-batches"} for n in counts]

    def expected(self, case: Case, rank: int) -> Any:
        import torch

        from ddp_course.exercises.ranks import mse

        def gradients(ranks: range | list[int], micro: slice) -> dict[str, Any]:
            net = Accumulate.net(case)
            inputs, targets = Accumulate.batches(case)[0]
            losses = [mse(net, pair) for r in ranks for pair in zip(inputs[r][micro], targets[r][micro], strict=True)]
            (torch.stack(losses).sum() / len(ranks)).backward()
            return _gradients(net)

        world, micro = case["world"], case["micro"]
        own = [gradients([r], slice(None)) for r in range(world)]
        mean = {
            name: (torch.tensor(value) / micro).tolist() for name, value in gradients(range(world), slice(None)).items()
        }
        return {
            "value": gradients(range(world), slice(None)),
            "known": [
                [mean, f"That is divided by the {micro} micro-batches. Here the sum is asked for."],
                [gradients(range(world), slice(-1, None)), "Only the last micro-batch is in it."],
                [gradients(range(world), slice(0, 1)), "Only the first micro-batch is in it."],
                [
                    {name: {"per rank": [one[name] for one in own]} for name in own[0]},
                    "Each rank has its own sum: nothing was exchanged, not even in the last backward.",
                ],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from torch.nn.parallel import DistributedDataParallel

        from ddp_course.exercises.ranks import collectives, mark

        net = Accumulate.net(case)
        model = DistributedDataParallel(net)
        inputs, targets = Accumulate.batches(case)[0]
        since = mark()
        answer.accumulate(model, list(zip(inputs[rank], targets[rank], strict=True)))
        sent = sum(sum(counts) for name, counts, _ in collectives(since) if name == "all_reduce")
        return {"value": _gradients(net), "times": round(sent / sum(p.numel() for p in net.parameters()))}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := compare(expected["value"], [one["value"] for one in seen], expected["known"]):
            return f"gradient of {wrong}"
        if (times := seen[0]["times"]) > 1:
            return f"the gradients are right, but they were sent {times} times for {case['micro']} micro-batches."
        return None


def _gradients(net: Any) -> dict[str, Any]:
    from ddp_course.exercises.ranks import plain

    return {name: plain(parameter.grad) for name, parameter in net.named_parameters()}


class EpochForgotten(Lab):
    """Every epoch in the same order."""

    name = "set_epoch_forgotten"
    lesson, section = "02", 2
    title = "`set_epoch` forgotten"
    minutes, difficulty = 3, 1
    tested = "the samples of every rank in every epoch"
    options = "--nproc-per-node 2 --lab"
    broken = """\
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group()
sampler = DistributedSampler(range(12), shuffle=True)
loader = DataLoader(range(12), batch_size=2, sampler=sampler)
for epoch in range(3):
    seen = [batch.tolist() for batch in loader]
    print(f"epoch {epoch}: {seen}")
dist.destroy_process_group()
"""
    question = Question(
        "`shuffle=True`, and every epoch has the same batches on the same ranks. Why?",
        (
            Option(
                "The DataLoader has to be given `shuffle=True` too",
                "With a sampler it refuses that: the sampler alone decides on the order.",
            ),
            Option(
                "12 samples are too few for a shuffle to show",
                "There are 479,001,600 orders of 12 samples.",
            ),
            Option(
                "The ranks have the same random seed",
                "They must have: with another one on each rank they would not share out one order.",
            ),
            Option(
                "The order depends on seed + epoch alone, and nobody told the sampler the epoch",
                "Yes. That is how all ranks shuffle alike without talking to each other; set_epoch changes the order.",
            ),
        ),
        "d",
    )
    stub = '''\
def visit(sampler, epochs):
    """sampler: this rank's DistributedSampler. Returns a list: for each of the epochs, from 0 on,
    the list of the samples that this rank visits, in order. Every epoch has its own shuffle."""
    raise NotImplementedError
'''
    hints = (
        "What has to differ between two epochs, and be the same on all ranks?",
        "DistributedSampler shuffles when it is asked for an iterator. What must it know before?",
        "sampler.set_epoch(epoch), on every rank, before each epoch's iteration.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [
            {"n": pick.randint(9, 14), "epochs": pick.randint(3, 4), "sampler": pick.randrange(100)} for _ in range(2)
        ]

    def expected(self, case: Case, rank: int) -> Any:
        def orders(epoch_of: Any) -> Any:
            result: list[list[list[int]]] = []
            for r in range(case["world"]):
                sampler = self._sampler(case, r)
                result.append([])
                for epoch in range(case["epochs"]):
                    sampler.set_epoch(epoch_of(epoch, r))
                    result[-1].append(list(sampler))
            return {"per rank": result}

        return {
            "value": orders(lambda epoch, r: epoch),
            "known": [
                [orders(lambda epoch, r: 0), "Every epoch has the order of epoch 0."],
                [orders(lambda epoch, r: max(epoch - 1, 0)), "Every epoch has the order of the one before: too late."],
                [orders(lambda epoch, r: epoch + 1), "The first epoch is number 0; yours have the orders of 1, 2 …"],
                [
                    orders(lambda epoch, r: epoch + r),
                    "Each rank shuffles in its own way: samples are seen twice, or never.",
                ],
                [
                    orders(lambda epoch, r: 0 if r else epoch),
                    "Only rank 0 knows the epoch: the ranks share out different orders.",
                ],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import plain

        return plain(answer.visit(self._sampler(case, rank), case["epochs"]))

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        wrong = super().judge(case, expected, seen, calls)
        return wrong.replace(" at [", " at [epoch, place] = [") if wrong else None

    def _sampler(self, case: Case, rank: int) -> Any:
        from torch.utils.data import DistributedSampler

        return DistributedSampler(range(case["n"]), case["world"], rank, shuffle=True, seed=case["sampler"])  # type: ignore[arg-type]
