"""Lesson 3, section 2: BatchNorm over all ranks, forward and backward."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from ddp_course.exercises.base import Call, Case, Exercise
from ddp_course.exercises.compare import compare, join, per_rank
from ddp_course.exercises.lesson_03.statistics import batches, one_collective, sample_counts

STEPS = 2


class SyncBatchNorm(Exercise):
    """The layer itself, held against nn.BatchNorm2d on the whole batch."""

    name = "sync_batch_norm"
    lesson, section = "03", 2
    title = "write SyncBatchNorm"
    minutes, difficulty = 20, 3
    tolerance = 1e-10
    tested = "equal to BatchNorm2d on the whole batch to 1e-10, also with unequal and empty batches"
    stub = '''\
import torch
import torch.distributed as dist
from torch import nn


class SyncBatchNorm(nn.BatchNorm2d):
    """nn.BatchNorm2d over the samples of all ranks, while training.

    Outputs, running statistics and the gradient of x are those of one process with all samples, to
    1e-10 in float64. The gradients of weight and bias are this rank's part of the sum: DDP combines
    them. One collective in forward and one in backward, each of at most 2 * num_features + 1
    numbers a rank. A rank may have no samples. Momentum, also None, and track_running_stats=False
    mean what they mean in nn.BatchNorm2d.
    """

    def forward(self, x):
        if not self.training:
            return super().forward(x)  # nothing to exchange
        raise NotImplementedError
'''
    hints = (
        "Forward is global_statistics, then (x - mean) / sqrt(variance + eps) * weight + bias. Backward: every rank's "
        "samples are in the sums, so every rank's outputs have a share in the gradient of these sums.",
        "A torch.autograd.Function whose forward sums over the ranks: its backward gets, on each rank, that rank's "
        "share of the gradient of the sum. What has to happen to the shares? Then autograd does the rest.",
        "Running statistics: the unbiased variance, variance * count / (count - 1). The new value has the part "
        "momentum in it, or 1 / num_batches_tracked where momentum is None; count that up first. Detach them.",
    )

    def cases(self, pick: random.Random, world: int) -> list[Case]:
        equal, unequal, empty = sample_counts(pick, world)
        momentum = pick.choice([0.2, 0.3, 0.4])
        chosen = [
            (equal, momentum, True, ""),
            (unequal, None, True, ", momentum=None"),
            (empty, momentum, True, ""),
            (unequal[::-1], momentum, False, ", track_running_stats=False"),
        ]
        shape = {"channels": pick.randint(2, 3), "size": 2}
        return [
            {"counts": n, "momentum": m, "track": track, "what": f"with {join(n)} samples{more}", **shape}
            for n, m, track, more in chosen
        ]

    def expected(self, case: Case, rank: int) -> Any:
        layer = _layer(case)
        right = [_step(layer, case, step) for step in range(STEPS)]
        value: dict[str, Any] = {}
        for step, (output, grads, _, seen) in enumerate(right):
            value |= {
                f"output, step {step}": _each(output.split(case["counts"])),
                f"gradient of x, step {step}": _each(grads.split(case["counts"])),
                f"weight.grad, step {step}": _each([rank["weight"] for rank in seen]),
                f"bias.grad, step {step}": _each([rank["bias"] for rank in seen]),
            }
            value |= {f"{name}, step {step}": number for name, number in right[step][2].items()}
        value["output in eval mode"] = _plain(_evaluated(layer, case))
        return {"value": value, "known": _known(case, right)}

    def run(self, answer: SimpleNamespace, case: Case, rank: int) -> Any:
        from ddp_course.exercises.ranks import collectives, mark

        layer = _layer(case, answer.SyncBatchNorm)
        value: dict[str, Any] = {}
        sent = []
        for step in range(STEPS):
            x, toward = (_inputs(case, step)[i][rank] for i in (0, 1))
            x = x.requires_grad_()
            layer.zero_grad()
            since = mark()
            output = layer(x * 1)
            forward, since = collectives(since), mark()
            (output * toward).sum().backward()
            sent.append([forward, collectives(since)])
            value |= {
                f"output, step {step}": _plain(output),
                f"gradient of x, step {step}": _plain(x.grad),
                f"weight.grad, step {step}": _plain(layer.weight.grad),
                f"bias.grad, step {step}": _plain(layer.bias.grad),
            }
            value |= {f"{name}, step {step}": number for name, number in _numbers(layer).items()}
        since = mark()
        value["output in eval mode"] = _plain(_evaluated(layer, case))
        return {"value": value, "sent": sent, "in eval": collectives(since)}

    def judge(self, case: Case, expected: Any, seen: list[Any], calls: list[list[Call]]) -> str | None:
        values = [one["value"] for one in seen]
        if wrong := compare(expected["value"], values, expected["known"], self.tolerance):
            return wrong
        for direction, where in enumerate(("in forward ", "in backward ")):
            sent = [one["sent"][0][direction] for one in seen]
            if wrong := one_collective(where, sent, 2 * case["channels"] + 1):
                return wrong
        if seen[0]["in eval"]:
            return "in eval mode your layer still communicates. A rank that evaluates alone would wait for ever."
        return None


def _layer(case: Case, kind: Any = None) -> Any:
    """The layer before training, with a weight and a bias that matter; `nn.BatchNorm2d` unless `kind` is given."""
    from torch import nn

    from ddp_course.exercises.ranks import randn

    layer = (kind or nn.BatchNorm2d)(case["channels"], momentum=case["momentum"], track_running_stats=case["track"])
    layer = layer.double()
    layer.weight.data = randn(case["seed"] + 70, case["channels"])
    layer.bias.data = randn(case["seed"] + 71, case["channels"])
    return layer


def _inputs(case: Case, step: int) -> tuple[list[Any], list[Any]]:
    """Each rank's x in a step, and what its outputs are multiplied with to give a loss."""
    other = {**case, "seed": case["seed"] + 500}
    return batches(case, step), batches(other, step)


def _step(layer: Any, case: Case, step: int) -> tuple[Any, Any, dict[str, Any], list[dict[str, Any]]]:
    """A step of one process: output, gradient of x, buffers, and each rank's part of the parameters' gradients."""
    import torch

    parts, towards = _inputs(case, step)
    x = torch.cat(parts).requires_grad_()
    output = layer(x)
    shares = []
    for out, toward in zip(output.split(case["counts"]), towards, strict=True):
        weight, bias = torch.autograd.grad((out * toward).sum(), [layer.weight, layer.bias], retain_graph=True)
        shares.append({"weight": weight, "bias": bias})
    (output * torch.cat(towards)).sum().backward()
    return output, x.grad, _numbers(layer), shares


def _known(case: Case, right: list[Any]) -> list[Any]:
    """What the usual mistakes give in the first step."""
    import torch

    parts, towards = _inputs(case, 0)
    layer = _layer(case)
    x, toward = torch.cat(parts), torch.cat(towards)
    variance = x.var((0, 2, 3), correction=0)
    scale = layer.weight.detach() / (variance + layer.eps).sqrt()
    constant = scale.view(1, -1, 1, 1) * toward
    averaged = constant + (right[0][1] - constant) / case["world"]
    total = {key: sum(share[key] for share in right[0][3]) for key in ("weight", "bias")}
    known = [
        [{"output, step 0": _each([_alone(case, part) for part in parts])}, "Each rank normalised its own batch."],
        [
            {"gradient of x, step 0": _each(constant.split(case["counts"]))},
            "That takes mean and variance for constants. They depend on x: each value moves all outputs.",
        ],
        [
            {"gradient of x, step 0": _each([_own_share(case, rank) for rank in range(case["world"])])},
            "That is this rank's share. The other ranks' outputs depend on this rank's x too, through the sums.",
        ],
        [
            {"gradient of x, step 0": _each(averaged.split(case["counts"]))},
            "The ranks' shares were averaged. A sum went forward, so a sum comes back.",
        ],
        [
            {"weight.grad, step 0": _plain(total["weight"])},
            "That is the sum over all ranks. DDP combines the gradients of parameters: done here, it happens twice.",
        ],
    ]
    if case["track"] and case["momentum"] is not None:
        part, unbiased = case["momentum"], x.var((0, 2, 3))
        known += [
            [
                {"running_var, step 0": _plain(1 - part + part * variance)},
                "That keeps the biased variance. The running one is unbiased: times count / (count - 1).",
            ],
            [
                {"running_var, step 0": _plain(part + (1 - part) * unbiased)},
                "The new value should have the part momentum in it, and the old one the rest.",
            ],
            [
                {"running_mean, step 0": _plain((1 - part) * x.mean((0, 2, 3)))},
                "The new value should have the part momentum in it, and the old one the rest.",
            ],
        ]
    return known


def _alone(case: Case, part: Any) -> Any:
    """What a rank gets that normalises its own batch."""
    return _layer(case)(part) if len(part) else part


def _own_share(case: Case, rank: int) -> Any:
    """The gradient of a rank's own outputs alone, though the statistics are those of all ranks."""
    import torch

    parts, towards = _inputs(case, 0)
    x = parts[rank].requires_grad_()
    whole = torch.cat([*parts[:rank], *parts[rank + 1 :], x])
    output = _layer(case)(whole)[len(whole) - len(x) :]
    (output * towards[rank]).sum().backward()
    return x.grad


def _numbers(layer: Any) -> dict[str, Any]:
    """The buffers that there are."""
    buffers = {name: getattr(layer, name) for name in ("running_mean", "running_var", "num_batches_tracked")}
    return {name: _plain(buffer) for name, buffer in buffers.items() if buffer is not None}


def _evaluated(layer: Any, case: Case) -> Any:
    """What the layer gives in eval mode, for the same images on every rank."""
    from ddp_course.exercises.ranks import randn

    layer.eval()
    return layer(randn(case["seed"] + 80, 3, case["channels"], case["size"], case["size"]))


def _each(tensors: Any) -> Any:
    return per_rank([_plain(tensor) for tensor in tensors])


def _plain(value: Any) -> Any:
    from ddp_course.exercises.ranks import plain

    return plain(value)
