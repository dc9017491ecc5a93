"""Lesson 3, section 5: an optimizer whose state is shared out over the ranks."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise, Lab, Option, Question
from ddp_course.exercises.compare import compare, per_rank, rank_list

STEPS = 20
OPTIONS: dict[str, Any] = {
    "lr": 0.05,
    "eps": 0.1,
}  # with AdamW's usual eps of 1e-8, N times the gradient gives the same step


class ZeroOne(Exercise):
    """AdamW, an N-th of its state on each rank."""

    name = "zero_1"
    lesson, section = "03", 5
    title = "shard the optimizer"
    minutes, difficulty = 15, 2
    tested = f"weights after {STEPS} steps equal to DDP with AdamW, state 1/N, no more bytes than an all-reduce"
    stub = '''\
import torch
import torch.distributed as dist


class ShardedAdamW:
    """AdamW with an N-th of its state on each of N ranks.

    parameters: tensors, alike on all ranks. options: lr and others, for torch.optim.AdamW.
    """

    def __init__(self, parameters, **options):
        self.parameters = list(parameters)
        # Ends with self.optimizer: a torch.optim.AdamW of this rank's share alone, perhaps padded.
        raise NotImplementedError

    def step(self):
        """Called after backward: each .grad is that of this rank's own batch.

        Afterwards all ranks have the weights that AdamW makes of the mean gradient. Sends no more
        than one all-reduce of the gradient would.
        """
        raise NotImplementedError
'''
    hints = (
        "AdamW treats each number on its own. So put all parameters into one long vector, pad it until it divides by "
        "the number of ranks, and let each rank take one piece.",
        "The two halves of an all-reduce, with your step between them. Which of them leaves each rank its own piece of "
        "a sum, and which brings the pieces back to all?",
        "Give AdamW a list with one tensor: a clone of this rank's piece. In step, its .grad comes from "
        "dist.reduce_scatter_single; its new values go out with dist.all_gather_single, and back into the parameters.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        width = pick.randint(4, 6)
        numbers = 3 * width + width + width * 2 + 2
        return [{"width": width, "numbers": numbers, "what": f"and {numbers} parameters"}]

    def expected(self, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import values

        return {
            "value": _train(case),
            "known": [
                [_train(case, factor=case["world"]), "Your gradient is the sum over the ranks; DDP has the mean."],
                [_train(case, own=True), "Each piece was updated with its own rank's gradient, not with the mean."],
                [_train(case, gathered=False), "Each rank has updated its own piece and kept the others' old values."],
                [values(_net(case)), "The weights have not changed: the new values never got back into them."],
                [_train(case, forgets=True), "The averages begin anew in each step: make the AdamW once."],
            ],
        }

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import mse, values
        from ddp_course.traffic import Collectives

        net = _net(case)
        optimizer = answer.ShardedAdamW(net.parameters(), **OPTIONS)
        with Collectives() as collectives:
            for step in range(STEPS):
                net.zero_grad()
                mse(net, _batch(case, step, rank)).backward()
                optimizer.step()
        inner = getattr(optimizer, "optimizer", None)
        return {"weights": values(net), "state": _state_size(inner), "log": collectives.log}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        known = [[value, why] for value, why in expected["known"]]
        if wrong := compare(expected["value"], [one["weights"] for one in seen], known):
            return f"after {STEPS} steps, {wrong}"
        if seen[0]["state"] is None:
            return "right weights, but there is no self.optimizer, a torch.optim.AdamW, to count the state of."
        world, numbers = case["world"], case["numbers"]
        fair = -(-numbers // world) + 3  # four tensors may be padded one by one
        if heavy := [rank for rank, one in enumerate(seen) if one["state"] > 2 * fair]:
            kept = seen[heavy[0]]["state"]
            return (
                f"right weights, but there are {kept} numbers of AdamW's state on {rank_list(heavy)}.\n"
                f"All of it is {2 * numbers} numbers, so that a rank's share is about {2 * numbers // world}."
            )
        from ddp_course.traffic import sent

        allowed = sent([["all_reduce", 8 * world * fair]] * STEPS, world)  # type: ignore[list-item]
        if sent(seen[0]["log"], world) > allowed:
            names = sorted({name for name, _ in seen[0]["log"]})
            return (
                f"right weights, but each rank sends more than for an all-reduce: {' and '.join(names)} in a step.\n"
                "An all-reduce brings the whole mean to every rank, and a rank needs its own piece of it."
            )
        return None


def _net(case: Case) -> Any:
    from torch import nn

    from ddp_course.exercises.ranks import seeded

    width = case["width"]
    return seeded(case["seed"], lambda: nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2)))


def _batch(case: Case, step: int, rank: int) -> Any:
    from ddp_course.exercises.ranks import randn

    seed = case["seed"] + 100 * step + rank
    return randn(seed, 4, 3), randn(seed + 50, 4, 2)


def _state_size(optimizer: Any) -> int | None:
    import torch

    if not isinstance(optimizer, torch.optim.AdamW):
        return None
    tensors = [t for state in optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor)]
    return sum(t.numel() for t in tensors if t.dim())  # not the step counters


def _train(
    case: Case, factor: float = 1.0, own: bool = False, gathered: bool = True, forgets: bool = False
) -> dict[str, Any]:
    """The weights after `STEPS` steps, by name; in one process, a net a rank.

    Wrong ones: `factor` times the mean gradient; each piece of the vector with its `own` rank's gradient; pieces
    that are not `gathered`; an optimizer that `forgets` its state.
    """
    import torch
    from torch.nn.utils import parameters_to_vector, vector_to_parameters

    from ddp_course.exercises.ranks import mse, values

    world = case["world"]
    nets = [_net(case) for _ in range(world)]
    whole = parameters_to_vector(nets[0].parameters()).detach().clone()
    piece = -(-len(whole) // world)
    optimizer = torch.optim.AdamW([whole], **OPTIONS)
    for step in range(STEPS):
        grads = []
        for rank, net in enumerate(nets):
            net.zero_grad()
            mse(net, _batch(case, step, rank)).backward()
            grads.append(torch.cat([p.grad.flatten() for p in net.parameters()]))
        pieces = [grad[piece * r : piece * (r + 1)] for r, grad in enumerate(grads)]
        whole.grad = torch.cat(pieces) if own else torch.stack(grads).mean(0) * factor
        if forgets:
            optimizer = torch.optim.AdamW([whole], **OPTIONS)
        optimizer.step()
        for rank, net in enumerate(nets):
            new = whole.clone()
            if not gathered:
                new = parameters_to_vector(net.parameters()).detach().clone()
                new[piece * rank : piece * (rank + 1)] = whole[piece * rank : piece * (rank + 1)]
            vector_to_parameters(new, net.parameters())
    if gathered:
        return values(nets[0])
    return {name: per_rank([values(net)[name] for net in nets]) for name in values(nets[0])}


class UnconsolidatedState(Lab):
    """A state dict of an earlier step."""

    name = "unconsolidated_state"
    lesson, section = "03", 5
    title = "consolidated once"
    minutes, difficulty = 6, 2
    tested = "state equal to plain AdamW's, asked for twice"
    worlds = (2, 3)
    options = "--nproc-per-node 2 --lab"
    broken = """\
import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

dist.init_process_group()
model = torch.nn.Linear(4, 1)
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW)
for step in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if step == 0:
        optimizer.consolidate_state_dict()  # state_dict() asks for it
if dist.get_rank() == 0:
    state = optimizer.state_dict()["state"]
    for number, name in enumerate(["weight", "bias"]):
        print(f"{name}: saved after step {int(state[number]['step'])} of 3")
dist.destroy_process_group()
"""
    question = Question(
        "The weight's state is that of step 3, the bias's that of step 1. Why?",
        (
            Option(
                "The bias had no gradient in steps 2 and 3",
                "It had one in every step: the loss depends on it as on the weight.",
            ),
            Option(
                "Rank 0 keeps the bias's state as it was collected; its own part it keeps current",
                "Yes. consolidate_state_dict() brings the other ranks' parts to rank 0 as they are then. Rank 1 has "
                "gone on with the bias since, and nobody told rank 0.",
            ),
            Option(
                "state_dict() must be called on rank 1 too",
                "state_dict() exchanges nothing. What exchanges is consolidate_state_dict(), and it ran on all ranks.",
            ),
            Option(
                "The ranks made unequal numbers of steps",
                "Both made three: step() sends the new weights to the others, so that ranks keep pace.",
            ),
        ),
        "b",
    )
    stub = '''\
import torch.distributed as dist


def optimizer_state(optimizer):
    """optimizer: a ZeroRedundancyOptimizer. Called on every rank, after any step.

    Returns on rank 0 the state dict as it is now, of all parameters, and None on every other rank.
    """
    raise NotImplementedError
'''
    hints = (
        "What brings the parts to rank 0, and when does it have to run?",
        "It is a collective: all ranks run it, whoever uses the result.",
        "Consolidate, then let rank 0 ask for the state dict. Twice the function, twice the consolidation.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        return [{"first": pick.randint(1, 3), "then": pick.randint(1, 3)}]

    def expected(self, case: Case, rank: int) -> Any:
        import torch

        from ddp_course.exercises.ranks import mse

        net = _net({**case, "width": 4})
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
        states = []
        for steps in (case["first"], case["then"]):
            for step in range(steps):
                net.zero_grad()
                mse(net, _batch(case, step, 0)).backward()
                optimizer.step()
            states.append(_readable(optimizer.state_dict()))
        nobody: list[Any] = [None] * (case["world"] - 1)
        return {"first": per_rank([states[0], *nobody]), "again": per_rank([states[1], *nobody])}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        import torch
        from torch.distributed.optim import ZeroRedundancyOptimizer

        from ddp_course.exercises.ranks import mse

        net = _net({**case, "width": 4})
        optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=0.05)
        states = []
        for steps in (case["first"], case["then"]):
            for step in range(steps):
                net.zero_grad()
                mse(net, _batch(case, step, 0)).backward()
                optimizer.step()
            states.append(_readable(answer.optimizer_state(optimizer)))
        return {"first": states[0], "again": states[1]}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        for when, steps in (("first", case["first"]), ("again", case["first"] + case["then"])):
            right = expected[when]["per rank"]
            got = [one[when] for one in seen]
            if got[1:] == right[1:] and compare(_flat(right[0]), [_flat(got[0])]) is None:
                continue
            if extra := [rank for rank, state in enumerate(got) if rank and state is not None]:
                return f"{rank_list(extra)} returned a state dict too; rank 0 alone needs it."
            if not isinstance(got[0], dict):
                return f"after {steps} steps, expected a state dict on rank 0   you returned {got[0]}"
            if missing := sorted(set(right[0]) - set(got[0])):
                lost = f"rank 0's state dict lacks parameter {missing[0]}"
                return f"after {steps} steps, {lost}: another rank has its state."
            old = [key for key, state in got[0].items() if state[0] < steps]
            if old:
                return (
                    f"after {steps} steps, the state of parameter {old[0]} is that of step {int(got[0][old[0]][0])}.\n"
                    "Its rank has gone on since it was collected."
                )
            return f"after {steps} steps, rank 0's state dict differs from plain AdamW's."
        return None


def _readable(state: Any) -> Any:
    """A state dict as {parameter: [step, exp_avg…, exp_avg_sq…]}; anything else as it is."""
    from ddp_course.exercises.ranks import plain

    if not isinstance(state, dict) or "state" not in state:
        return None if state is None else plain(state)
    return {
        str(number): [float(one["step"]), *one["exp_avg"].flatten().tolist(), *one["exp_avg_sq"].flatten().tolist()]
        for number, one in state["state"].items()
    }


def _flat(state: Any) -> Any:
    return [number for key in sorted(state) for number in state[key]] if isinstance(state, dict) else state
