"""Lesson 2, break-it labs: training that runs, and is not data parallel."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Lab, Option, Question

STEPS = 3


class TrainingLab(Lab):
    """A repair that trains a net; right is what one process would have got."""

    section = 3
    options = "--nproc-per-node 2 --lab"

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [{"batch": pick.randint(1, 4)}]

    def expected(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import simulate, values, values_per_rank

        ranks = range(case["world"])
        alike = [self.net(case, 0) for _ in ranks]
        right = values(simulate(alike, self.batches(case), optimizer=self.optimizer)[0])
        own = simulate([self.net(case, 0) for _ in ranks], self.batches(case), "own", self.optimizer)
        apart = simulate([self.net(case, r) for r in ranks], self.batches(case), "own", self.optimizer)
        known = [
            [values_per_rank(own), "The ranks started alike and drift apart: their gradients were not averaged."],
            [
                values_per_rank(apart),
                "The ranks started from different weights, and their gradients were not averaged.",
            ],
        ]
        return {"value": right, "known": known}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        wrong = super().judge(case, expected, seen, calls)
        return f"after {STEPS} steps, {wrong}" if wrong else None

    @staticmethod
    def optimizer(model: Any) -> Any:
        """The optimizer of this lab."""
        from ddp_course.exercises.ranks import sgd

        return sgd(model)

    def net(self, case: Case, rank: int) -> Any:
        """The net of a rank before training: other weights on each rank."""
        from torch import nn

        from ddp_course.exercises.ranks import seeded

        return seeded(case["seed"] + rank, lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))

    def batches(self, case: Case) -> list[Any]:
        """For each step, each rank's (inputs, targets)."""
        from ddp_course.exercises.ranks import randn

        shape = (STEPS, case["world"], case["batch"])
        inputs, targets = randn(case["seed"] + 50, *shape, 3), randn(case["seed"] + 60, *shape, 2)
        return [list(zip(x, y, strict=True)) for x, y in zip(inputs, targets, strict=True)]


class ModuleInTraining(TrainingLab):
    """The forward pass goes around DDP."""

    name = "module_in_training"
    lesson = "02"
    title = "`.module` called in training"
    minutes, difficulty = 4, 1
    tested = "weights after 3 steps equal to one process, on every rank"
    broken = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group()
torch.manual_seed(dist.get_rank())
model = DDP(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model.module(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: first weight {model.module.weight[0, 0].item():.4f}")
dist.destroy_process_group()
"""
    question = Question(
        "The model is wrapped, no error appears, and the ranks' weights differ after the first step. Why?",
        (
            Option(
                "Each rank has its own random seed, so the wrapped models start differently",
                "DDP's constructor overwrites them with rank 0's weights. Print them before the first step to see it.",
            ),
            Option(
                "Each rank sees other data, so the weights must differ",
                "Other data is the point of data parallelism; the gradient averaged over the ranks is the same on all.",
            ),
            Option(
                "The forward went to the bare module, so DDP never prepared to exchange gradients",
                "Yes. DDP's own forward arms its reducer. model.module(…) goes around it, and each rank trains alone.",
            ),
            Option(
                "The optimizer was given the parameters of the wrapper instead of the module",
                "They are the same tensors: the wrapper's parameters() are the module's.",
            ),
        ),
        "c",
    )
    stub = '''\
import torch.nn.functional as F


def train_step(model, optimizer, inputs, targets):
    """One step of the DDP model on this rank's batch, with F.mse_loss. Returns the loss of this
    rank."""
    raise NotImplementedError
'''
    hints = (
        "Which object has the forward that takes part in the exchange of gradients?",
        ".module is for what needs no other rank: saving, evaluating on one rank, looking at a layer.",
        "zero_grad, the loss of model(inputs), backward, step: no line of it mentions .module.",
    )

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from torch.nn.parallel import DistributedDataParallel

        from ddp_course.exercises.ranks import values

        net = self.net(case, rank)
        model = DistributedDataParallel(net)
        optimizer = self.optimizer(model)
        for batches in self.batches(case):
            answer.train_step(model, optimizer, *batches[rank])
        return values(net)


class HeadAfterWrap(TrainingLab):
    """A layer that DDP has never seen."""

    name = "head_after_wrap"
    lesson = "02"
    title = "a head added after wrapping"
    minutes, difficulty = 4, 1
    tested = "body and head equal to one process after 3 steps, on every rank"
    broken = """\
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group()
torch.manual_seed(dist.get_rank())
model = DDP(nn.Sequential(nn.Linear(4, 4)))
model.module.append(nn.Linear(4, 1))  # a new head for this task
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    body, head = model.module
    print(f"body {body.weight[0, 0].item():.4f}   head {head.weight[0, 0].item():.4f}")
dist.destroy_process_group()
"""
    question = Question(
        "The body's weights agree on both ranks; the head's never do. Why?",
        (
            Option(
                "DDP broadcasts and hooks the parameters it finds in its constructor; the head came later",
                "Yes. The head was neither copied from rank 0 nor given a hook: each rank trains a head of its own.",
            ),
            Option(
                "The optimizer does not know the head",
                "It was built after the head was added and has its parameters; the printed head does change.",
            ),
            Option(
                "The head's gradient is in the second bucket, which is sent one step late",
                "No bucket is sent late: backward ends when all of them are reduced. The head is in no bucket at all.",
            ),
            Option(
                "append() on a wrapped model makes a copy of it",
                "model.module is the very module that DDP uses in its forward; nothing is copied.",
            ),
        ),
        "a",
    )
    stub = '''\
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def build(body, head):
    """Two modules with other weights on each rank. Returns the DDP model that applies body, then
    head."""
    raise NotImplementedError
'''
    hints = (
        "When does DDP look at the parameters of a model?",
        "What has to be complete before the model is wrapped?",
        "nn.Sequential(body, head) is a module like any other; wrap that.",
    )

    def expected(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import simulate, values_per_rank

        def with_head_apart(own_start: bool) -> Any:
            nets = [self.net(case, 0) for _ in range(case["world"])]
            for r, net in enumerate(nets):
                if own_start:
                    net[2] = self.net(case, r)[2]
            return values_per_rank(simulate(nets, self.batches(case), apart="2."))

        result = super().expected(case, rank)
        result["known"] += [
            [with_head_apart(True), "Each rank trains a head of its own, from its own start."],
            [with_head_apart(False), "The heads start alike, but each rank steps with its own gradient of it."],
        ]
        return result

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import mse, values

        net = self.net(case, rank)
        model = answer.build(net[:2], net[2])
        optimizer = self.optimizer(net)
        for batches in self.batches(case):
            optimizer.zero_grad()
            mse(model, batches[rank]).backward()
            optimizer.step()
        return values(net)
