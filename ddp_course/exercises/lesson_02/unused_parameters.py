"""Lesson 2, break-it lab: parameters that a step does not use."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Case, Option, Question
from ddp_course.exercises.lesson_02.labs_drifting import STEPS, TrainingLab


class UnusedParameters(TrainingLab):
    """A model that uses one of its heads at a time."""

    name = "unused_parameters"
    lesson = "02"
    title = "parameters that a step does not use"
    minutes, difficulty = 6, 2
    tested = "heads that change from step to step, alike and not alike on the ranks"
    options = "--nproc-per-node 2 --lab"
    broken = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.heads = nn.Linear(4, 4), nn.ModuleList([nn.Linear(4, 1), nn.Linear(4, 1)])

    def forward(self, x, task):
        return self.heads[task](self.body(x))


dist.init_process_group()
model = DDP(TwoHeads())
for step in range(3):
    model(torch.ones(2, 4), task=step % 2).mean().backward()
    print(f"step {step} done")
dist.destroy_process_group()
"""
    question = Question(
        "The first step runs, the second one raises an error. What is wrong, and since when?",
        (
            Option(
                "In the second step: its head was not there when DDP built the buckets",
                "Both heads were there when the model was wrapped. The error speaks of the step before.",
            ),
            Option(
                "In the first step: head 1 got no gradient, so the reduction of that step never finished",
                "Yes. DDP counts the gradients that are ready and waits for those of head 1, which this step never "
                "used. It notices at the next forward.",
            ),
            Option(
                "In the second step: gradients were not zeroed",
                "Gradients that add up change the numbers; DDP does not mind them.",
            ),
            Option(
                "In both: the two heads have the same shape, so their gradients are confused",
                "Parameters are told apart by identity, not by shape.",
            ),
        ),
        "b",
    )
    stub = '''\
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def wrap(model):
    """model(x, task) uses only one of its heads. Returns model under DDP, called in the same way.

    The task may change from step to step, and differ between the ranks.
    """
    raise NotImplementedError
'''
    hints = (
        "DDP waits for the gradient of every parameter. Either it has to learn which ones will not come, or they all "
        "have to come.",
        "The error message of the broken program names an argument of DDP's constructor.",
        "That argument makes DDP walk through the graph after each forward. The promise of static_graph, the same "
        "graph in every step, would not be kept here.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        same = [[step % 2] * world for step in range(STEPS)]
        mixed = [[pick.randrange(2) for _ in range(world)] for _ in range(STEPS)]
        batch = pick.randint(1, 4)
        return [
            {"batch": batch, "tasks": same, "what": "with the same task on each rank"},
            {"batch": batch, "tasks": mixed, "what": "with a task for each rank"},
        ]

    def net(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import seeded

        return seeded(case["seed"] + rank, _two_heads)

    def batches(self, case: Case) -> list[Any]:
        pairs = zip(super().batches(case), case["tasks"], strict=True)
        return [[(x, task, y) for (x, y), task in zip(step, tasks, strict=True)] for step, tasks in pairs]

    @staticmethod
    def optimizer(model: Any) -> Any:
        """Without momentum: a missing gradient and a zero one do the same."""
        import torch

        return torch.optim.SGD(model.parameters(), lr=0.1)

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import mse, values

        net = self.net(case, rank)
        model = answer.wrap(net)
        optimizer = self.optimizer(net)
        for batches in self.batches(case):
            optimizer.zero_grad()
            mse(model, batches[rank]).backward()
            optimizer.step()
        return values(net)


def _two_heads() -> Any:
    from torch import nn

    class TwoHeads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.heads = nn.Linear(3, 4), nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 2)])

        def forward(self, x: Any, task: int) -> Any:
            return self.heads[task](self.body(x))

    return TwoHeads()
