"""Lesson 3, break-it labs around BatchNorm: a lonely sample, layers that were never replaced, a rank that evaluates."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from ddp_course.exercises.base import Call, Case, Lab, Option, Question
from ddp_course.exercises.compare import compare, join


class BatchOfOne(Lab):
    """The last batch of a rank has one sample."""

    name = "batch_of_one"
    lesson, section = "03", 1
    title = "the third batch"
    minutes, difficulty = 5, 1
    tested = "shares with and without a rest, batches of 2 to 4"
    options = "--nproc-per-node 2 --lab"
    broken = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group("gloo")
model = DDP(nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)))
data = torch.randn(10, 4)
loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data))
for number, batch in enumerate(loader):
    model(batch).sum().backward()
    print(f"batch {number} done")
dist.destroy_process_group()
"""
    question = Question(
        "Two batches go well, the third raises an error on both ranks. What is wrong with it?",
        (
            Option(
                "The sampler padded it with a sample that the other rank has too",
                "10 samples are 5 for each rank; nothing is padded, and a repeated sample raises no error.",
            ),
            Option(
                "A batch size of 2 is too small for BatchNorm",
                "Two samples have a variance: the first two batches trained.",
            ),
            Option(
                "It has one sample on each rank: what is left of a value, less its own mean, is 0",
                "Yes. 5 samples make batches of 2, 2 and 1. BatchNorm refuses the 1: all outputs would be the bias.",
            ),
            Option(
                "One rank has a batch more than the other",
                "Each has three. And a missing batch hangs; it does not raise a ValueError.",
            ),
        ),
        "c",
    )
    stub = '''\
from torch.utils.data import DataLoader, DistributedSampler


def make_loader(data, batch_size):
    """Returns a DataLoader over this rank's share of data. Each batch has batch_size samples, and
    what is left of the share is less than a batch."""
    raise NotImplementedError
'''
    hints = (
        "Which batch is the short one, and who decides whether it is given out?",
        "DistributedSampler(drop_last=True) makes the ranks' shares equal. The batches are made by another object.",
        "The DataLoader has an option of the same name.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        size = pick.randint(2, 4)
        rests = [1, 0, size - 1]
        return [
            {"samples": world * (size * pick.randint(2, 4) + rest), "size": size, "what": f"and a rest of {rest}"}
            for rest in rests
        ]

    def expected(self, case: Case, rank: int) -> Any:
        return None

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        import torch
        from torch.utils.data import DataLoader

        loader = answer.make_loader(torch.arange(case["samples"]), case["size"])
        if not isinstance(loader, DataLoader):
            return {"kind": type(loader).__name__}
        return {"batches": [batch.tolist() for batch in loader]}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if "kind" in seen[0]:
            return f"return a DataLoader; yours is a {seen[0]['kind']}."
        size, full = case["size"], case["samples"] // case["world"] // case["size"]
        for rank, one in enumerate(seen):
            lengths = [len(batch) for batch in one["batches"]]
            if any(length != size for length in lengths):
                why = " BatchNorm cannot train on the 1." if 1 in lengths else ""
                return f"batches of {join(lengths)} samples on rank {rank}, where each should have {size}.{why}"
            if len(lengths) != full:
                return f"{len(lengths)} batches on rank {rank}: its share makes {full}."
        every = [sample for one in seen for batch in one["batches"] for sample in batch]
        if len(set(every)) < len(every):
            return f"{len(every) - len(set(every))} samples came twice: the ranks' shares overlap."
        return None


class ConversionIgnored(Lab):
    """What the conversion returned was not kept."""

    name = "conversion_ignored"
    lesson, section = "03", 2
    title = "converted, and still apart"
    minutes, difficulty = 5, 1
    tested = "a nested model and a single layer; statistics equal to one process, parameters kept"
    options = "--nproc-per-node 2 --lab"
    broken = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 1))
for layer in model:
    nn.SyncBatchNorm.convert_sync_batchnorm(layer)
model = DDP(model, forward_sync_buffers=False)
for step in range(3):
    images = torch.randn(4, 1, 3, 3) + rank
    model(images).sum().backward()
    print(f"step {step}: running mean {model.module[1].running_mean[0].item():.3f}")
dist.destroy_process_group()
"""
    question = Question(
        "With statistics over all ranks, both ranks would print the same numbers. Why do they not?",
        (
            Option(
                "Conversion returned new layers, and the model still has its old ones",
                "Yes. Given a single layer, it cannot put another one in its place. It returns the new layer.",
            ),
            Option(
                "`forward_sync_buffers=False` keeps the layers from synchronising",
                "SyncBatchNorm has collectives of its own; this option is about DDP copying rank 0's buffers.",
            ),
            Option(
                "Running statistics are always each rank's own",
                "SyncBatchNorm makes them of the statistics of all ranks, so they agree without being sent.",
            ),
            Option(
                "The layers have to be converted after wrapping",
                "The documentation asks for the other order. Later would not help: the result is thrown away.",
            ),
        ),
        "a",
    )
    stub = '''\
from torch.nn.parallel import DistributedDataParallel as DDP

from ddp_course.sync_batch_norm import convert  # as nn.SyncBatchNorm.convert_sync_batchnorm, for CPUs too


def prepare(model):
    """Returns model under DDP, each BatchNorm2d in it converted: also where model itself is one."""
    raise NotImplementedError
'''
    hints = (
        "What does convert change in place, and what can it not change?",
        "Call it once, for the whole model.",
        "Its result is the model to wrap.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        counts = [pick.randint(1, 4) for _ in range(world)]
        shape = {"counts": counts, "channels": pick.randint(2, 3)}
        return [
            {"nested": True, "what": "and a nested model", **shape},
            {"nested": False, "what": "and one layer", **shape},
        ]

    def expected(self, case: Case, rank: int) -> Any:
        import torch

        model = self._model(case)
        batches = self._batches(case)
        model(torch.cat(batches))
        alone = []
        for batch in batches:
            alone.append(self._model(case))
            alone[-1](batch)
        own = {name: {"per rank": [self._values(one)[name] for one in alone]} for name in self._values(model)}
        why = "Each rank has its own statistics: BatchNorm2d is still in the model that you return."
        return {"value": self._values(model), "known": [[own, why]]}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from torch import nn
        from torch.nn.parallel import DistributedDataParallel

        init, early = DistributedDataParallel.__init__, []

        def watched(ddp: Any, module: nn.Module, *args: Any, **options: Any) -> None:
            early.append(any(type(layer) is nn.BatchNorm2d for layer in module.modules()))
            init(ddp, module, *args, **options)

        with patch.object(DistributedDataParallel, "__init__", watched):
            model = answer.prepare(self._model(case))
        if not isinstance(model, DistributedDataParallel):
            return {"kind": type(model).__name__}
        model.forward_sync_buffers = False
        model(self._batches(case)[rank])
        return {"value": self._values(model.module), "early": any(early)}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if "kind" in seen[0]:
            return f"return the model under DDP; yours is a {seen[0]['kind']}."
        if wrong := compare(expected["value"], [one["value"] for one in seen], expected["known"]):
            return wrong
        if seen[0]["early"]:
            return "the statistics are right, but DDP was given the model unconverted. Convert first, then wrap."
        return None

    def _model(self, case: Case) -> Any:
        from torch import nn

        from ddp_course.exercises.ranks import randn, seeded

        layer = nn.BatchNorm2d(case["channels"]).double()
        layer.weight.data = randn(case["seed"], case["channels"])
        if not case["nested"]:
            return layer
        channels = case["channels"]
        return seeded(case["seed"], lambda: nn.Sequential(nn.Conv2d(channels, channels, 1), nn.Sequential(layer)))

    def _batches(self, case: Case) -> list[Any]:
        from ddp_course.exercises.ranks import randn

        seed, channels = case["seed"] + 9, case["channels"]
        return [randn(seed + rank, count, channels, 2, 2) + rank for rank, count in enumerate(case["counts"])]

    @staticmethod
    def _values(model: Any) -> Any:
        """The parameters and buffers of the norm, by their own names."""
        from ddp_course.exercises.ranks import plain

        norm = next(layer for layer in model.modules() if hasattr(layer, "running_mean"))
        return {name: plain(tensor) for name, tensor in norm.state_dict().items()}


class RankZeroEvaluates(Lab):
    """A DDP model called on one rank, in eval mode."""

    name = "rank_0_evaluates"
    lesson, section = "03", 3
    title = "rank 0 evaluates"
    minutes, difficulty = 6, 2
    tested = "the loss in eval mode, nothing sent, model and statistics as before"
    worlds = (2, 3)
    options = "--nproc-per-node 2 --timeout 20 --lab"
    broken = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2), nn.Linear(2, 1)))
for step in range(3):
    model(torch.randn(8, 4)).square().mean().backward()
print("trained")
if rank == 0:
    model.eval()
    with torch.no_grad():
        print("test loss", model(torch.ones(4, 4)).square().mean().item())
dist.destroy_process_group()
"""
    question = Question(
        "Training went well. Then rank 0 waited in a broadcast, though the script has none. Whose is it?",
        (
            Option(
                "BatchNorm's: it fetches the other rank's statistics for the evaluation",
                "BatchNorm1d never communicates. In eval mode it takes the running statistics that it has.",
            ),
            Option(
                "`no_grad()`'s: it has to switch off the hooks on all ranks",
                "It acts on its own process alone, and ends with its block.",
            ),
            Option(
                "Backward's: rank 1's last gradient had not arrived",
                "Both ranks had printed `trained`: backward ends when its all-reduces have.",
            ),
            Option(
                "DDP's: its forward sends the buffers from rank 0 to all ranks, in eval mode too",
                "Yes. `model(…)` is a collective, and rank 1 never called it. model.module is none.",
            ),
        ),
        "d",
    )
    stub = '''\
import torch
import torch.nn.functional as F


def validate(model, inputs, targets):
    """Called on rank 0 alone, between two training steps. model: the DDP model, in training mode.

    Returns F.mse_loss of what it gives in eval mode, as a number. Sends nothing, and leaves the
    model as it was.
    """
    raise NotImplementedError
'''
    hints = (
        "Whose forward broadcasts the buffers, the wrapper's or the wrapped model's?",
        "For what needs no other rank there is model.module.",
        "Eval mode before, training mode after, no_grad around, and .item() at the end.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [{"batch": pick.randint(2, 5), "width": pick.randint(2, 4)}]

    def expected(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import mse

        def loss(train: bool) -> float:
            return mse(self._net(case).train(train), self._batch(case)).item()

        why = "That is the loss in training mode: with the statistics of this batch, not the running ones."
        return {"value": loss(False), "known": [[loss(True), why]]}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from torch.nn.parallel import DistributedDataParallel

        from ddp_course.exercises.ranks import plain, values

        model = DistributedDataParallel(self._net(case))
        before = values(model)
        value = answer.validate(model, *self._batch(case)) if rank == 0 else 0.0
        return {
            "value": plain(value),
            "kind": type(value).__name__,
            "kept": values(model) == before,
            "training": all(module.training for module in model.modules()),
        }

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        first = seen[0]
        if wrong := compare(expected["value"], [first["value"]], expected["known"], 1e-9):
            return f"loss: {wrong}"
        if first["kind"] != "float":
            return f"the loss is right, but it is a {first['kind']}, not a plain number: .item() takes that out of it."
        if not first["training"]:
            return "the loss is right, but the model is still in eval mode: its statistics would stand still from here."
        return None if first["kept"] else "the loss is right, but the model's running statistics have changed."

    def _net(self, case: Case) -> Any:
        from torch import nn

        from ddp_course.exercises.ranks import randn, seeded

        width = case["width"]
        net = seeded(
            case["seed"], lambda: nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Linear(width, 2))
        )
        net(3 * randn(case["seed"] + 5, 6, 3) + 2)  # running statistics that are not those of the batch
        return net

    def _batch(self, case: Case) -> Any:
        from ddp_course.exercises.ranks import randn

        return randn(case["seed"] + 1, case["batch"], 3), randn(case["seed"] + 2, case["batch"], 2)
