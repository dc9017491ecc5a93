"""Lesson 3, break-it labs: sharded models that do not learn, or cannot be saved."""

from __future__ import annotations

import os
import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Lab, Option, Question
from ddp_course.exercises.compare import compare, rank_list


class OptimizerBeforeSharding(Lab):
    """An optimizer that holds tensors nobody uses any more."""

    name = "optimizer_before_sharding"
    lesson, section = "03", 6
    title = "optimizer built before `fully_shard`"
    minutes, difficulty = 5, 1
    tested = "weights after 3 steps equal to one process; each rank holds its part"
    options = "--nproc-per-node 2 --lab"
    broken = """\
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group()
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
fully_shard(model)
for step in range(3):
    loss = model(torch.ones(2, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
del model
dist.destroy_process_group()
"""
    question = Question(
        "There are gradients, step() runs, and the loss never moves. Why?",
        (
            Option("Both ranks see the same samples", "Then they have equal gradients, and step by them all the same."),
            Option(
                "The learning rate is too high",
                "At 0.1 the loss would jump about. It stays the same to the last digit: no weight changes.",
            ),
            Option(
                "AdamW cannot work with DTensors",
                "It can: an AdamW of the sharded parameters updates each rank's part.",
            ),
            Option(
                "The optimizer has the parameters of before: fully_shard() put others in their place",
                "Yes. model.parameters() are DTensors now, and they get the gradients. The tensors in the optimizer "
                "belong to no model any more.",
            ),
        ),
        "d",
    )
    stub = '''\
import torch
from torch.distributed.fsdp import fully_shard


def build(model, lr):
    """model: an nn.Sequential, alike on all ranks. Shards each of its layers, and then the model.

    Returns a torch.optim.AdamW with learning rate lr that trains it.
    """
    raise NotImplementedError
'''
    hints = (
        "Compare id() of the model's parameters before and after fully_shard().",
        "An optimizer keeps references to the tensors that it was given. When are the right ones there?",
        "First every fully_shard(), of the layers and of the model; AdamW last.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [{"width": pick.randint(4, 6)}]

    def expected(self, case: Case, rank: int) -> Any:
        import torch

        from ddp_course.exercises.ranks import simulate, values

        def adamw(net: Any) -> Any:
            return torch.optim.AdamW(net.parameters(), lr=0.05)

        def trained(combine: str) -> Any:
            nets = [_net(case) for _ in range(case["world"])]
            return [values(net) for net in simulate(nets, _batches(case), combine, adamw)]

        own = {name: {"per rank": [one[name] for one in trained("own")]} for name in values(_net(case))}
        return {
            "value": trained("mean")[0],
            "known": [
                [values(_net(case)), "The weights have not changed: whose tensors has the optimizer?"],
                [own, "Each rank trains alone: nothing is sharded."],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from torch.distributed.tensor import DTensor

        from ddp_course.exercises.ranks import mse, plain

        net = _net(case)
        optimizer = answer.build(net, 0.05)
        for batches in _batches(case):
            optimizer.zero_grad()
            mse(net, batches[rank]).backward()
            optimizer.step()
        named = dict(net.named_parameters())
        sharded = sum(isinstance(p, DTensor) for p in named.values())
        groups = sum(hasattr(layer, "unshard") for layer in net)
        whole = {name: plain(p.full_tensor() if isinstance(p, DTensor) else p) for name, p in named.items()}
        return {"weights": whole, "sharded": sharded, "groups": groups, "model": hasattr(net, "unshard")}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if wrong := compare(expected["value"], [one["weights"] for one in seen], expected["known"]):
            return f"after 3 steps, {wrong}"
        if seen[0]["sharded"] < 4:
            return f"it trains, but {seen[0]['sharded']} of 4 parameters are sharded."
        if seen[0]["groups"] < 2:
            return "it trains, but the layers are not sharded one by one: all of them are gathered at once."
        if not seen[0]["model"]:
            return "it trains, but fully_shard() was called for the layers alone. The model comes last."
        return None


class FullStateOnRankZero(Lab):
    """A collective that only rank 0 calls."""

    name = "full_state_on_rank_0"
    lesson, section = "03", 7
    title = "full state dict asked for on rank 0 only"
    minutes, difficulty = 6, 1
    tested = "one file, which a plain model loads with weights_only=True, there when save returns"
    options = "--nproc-per-node 2 --timeout 6 --lab"
    broken = """\
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard

dist.init_process_group()
model = torch.nn.Linear(4, 2)
fully_shard(model)
if dist.get_rank() == 0:  # one rank is enough to write a file
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    torch.save(get_model_state_dict(model, options=options), "full.pt")
    print("saved")
dist.barrier()  # until the file is there
print("training goes on")
del model
dist.destroy_process_group()
"""
    question = Question(
        "Neither rank prints a line. What do they wait for?",
        (
            Option(
                "Rank 0 for rank 1's shards, rank 1 for rank 0 at the barrier",
                "Yes. A full state dict is gathered from all ranks: a collective, which rank 1 never calls. It has "
                "gone on to the barrier, and rank 0 never gets there.",
            ),
            Option(
                "Rank 1 for the file",
                "Rank 1 does not look for a file: a barrier waits for ranks. Why does rank 0 not come?",
            ),
            Option(
                "For the disk", "The file is small, and rank 1 writes none. Nothing was written when the time was up."
            ),
            Option(
                "cpu_offload copies from a GPU that is not there",
                "Without a GPU there is nothing to copy. The shards of rank 1 are what is missing.",
            ),
        ),
        "a",
    )
    stub = '''\
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict


def save_for_inference(model, path):
    """model: sharded by fully_shard(). Called on every rank. Writes one file, with the whole weights, that
    model_of_one_process.load_state_dict(torch.load(path, weights_only=True)) can read.

    Rank 0 alone writes. When the function returns, every rank can read the file.
    """
    raise NotImplementedError
'''
    hints = (
        "What gathers the weights must run on every rank. What writes them need not.",
        "Call get_model_state_dict first, outside of every if. With these options rank 0 gets the weights, and the "
        "other ranks an empty dict.",
        "How does rank 1 learn that the file is complete? dist.barrier() after the writing, on all ranks.",
    )
    worlds = (2, 3)

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [{"width": pick.randint(4, 6)}]

    def expected(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import values

        return {"value": values(_net(case))}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        import torch
        from torch.distributed.fsdp import fully_shard

        from ddp_course.exercises.lesson_02.resuming import slow_save
        from ddp_course.exercises.ranks import values

        net = _net(case)
        for layer in net[::2]:
            fully_shard(layer)
        fully_shard(net)
        path = os.path.join(case["folder"], f"full-{case['index']}.pt")
        with slow_save(rank) as saved:
            answer.save_for_inference(net, path)
        there = os.path.exists(path)
        seen: dict[str, Any] = {"saved": len(saved), "there": there}
        if there:
            plain_net = _net({**case, "seed": case["seed"] + 1})
            try:
                plain_net.load_state_dict(torch.load(path, weights_only=True))
            except Exception as error:
                seen["refused"] = str(error).strip().splitlines()[-1].strip()[:160]
            else:
                seen["value"] = values(plain_net)
        return seen

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        if absent := [rank for rank, one in enumerate(seen) if not one["there"]]:
            return f"the file was not there on {rank_list(absent)} when save_for_inference returned."
        if refused := [one["refused"] for one in seen if "refused" in one]:
            return f"the file is there, but a plain model cannot load it:\n{refused[0]}"
        if wrong := compare(expected["value"], [one["value"] for one in seen]):
            return wrong
        if writers := [rank for rank, one in enumerate(seen) if one["saved"] and rank]:
            return f"{rank_list(writers)} wrote too. One writer is enough, and two can collide."
        return None


def _net(case: Case) -> Any:
    from torch import nn

    from ddp_course.exercises.ranks import seeded

    width = case["width"]
    return seeded(case["seed"], lambda: nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2)))


def _batches(case: Case) -> list[Any]:
    from ddp_course.exercises.ranks import randn

    shape = (3, case["world"], 4)
    inputs, targets = randn(case["seed"] + 50, *shape, 3), randn(case["seed"] + 60, *shape, 2)
    return [list(zip(x, y, strict=True)) for x, y in zip(inputs, targets, strict=True)]
