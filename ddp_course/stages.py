"""DDP and the three stages of ZeRO, really run on small layers, and the bytes that are then alive on a rank.

Stage 1 is `ZeroRedundancyOptimizer`, stage 3 FSDP2's `fully_shard`. PyTorch has no stage 2 of its own: here it is
stage 1 with `keep_own_gradients`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from ddp_course.memory import State


def nbytes(tensors: Iterable[torch.Tensor | None]) -> int:
    """Bytes of the storages behind some tensors on this rank, each storage once; of a DTensor this rank's shard."""
    local = [tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors if tensor is not None]
    return sum({one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in local}.values())


def live_bytes(model: nn.Module, optimizer: Any) -> State:
    """What is alive on this rank: parameters, gradients, and what its optimizer remembers of them.

    Without AdamW's step counters, a number of 4 bytes for each tensor.
    """
    parameters = list(model.parameters())
    state = getattr(optimizer, "optim", optimizer).state  # a ZeroRedundancyOptimizer's own part is in .optim
    return State(
        nbytes(parameters),
        nbytes(parameter.grad for parameter in parameters),
        nbytes(value for one in state.values() for value in one.values() if value.dim()),
    )


class MixedAdamW(torch.optim.Optimizer):
    """AdamW on fp32 copies of bf16 parameters: 12 bytes for each, the K of the ZeRO paper."""

    def __init__(self, params: Iterable[torch.Tensor], **options: Any) -> None:
        super().__init__(params, {})
        self._copies = {one: one.detach().float() for group in self.param_groups for one in group["params"]}
        self._adamw = torch.optim.AdamW(self._copies.values(), **options)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Step with the gradients of the parameters, and round the copies back into them."""
        for parameter, copy in self._copies.items():
            copy.grad = parameter.grad.float() if parameter.grad is not None else None
        self._adamw.step()
        for parameter, copy in self._copies.items():
            parameter.copy_(copy)
            copy.grad = None
            self.state[parameter] = {"copy": copy, **self._adamw.state[copy]}


def layers(width: int = 256, depth: int = 8) -> nn.Sequential:
    """Equal layers, which divide evenly over 1, 2 and 4 ranks; the same numbers on each."""
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)])


def build(model: nn.Sequential, stage: int) -> tuple[nn.Module, Any]:
    """`model` under DDP (stage 0), or sharded as ZeRO's `stage` does, and its optimizer; both ready to train."""
    kind: Any = MixedAdamW if model[0].weight.dtype == torch.bfloat16 else torch.optim.AdamW
    if stage == 3:
        for layer in model:
            fully_shard(layer)
        fully_shard(model)
        return model, kind(model.parameters())
    if stage == 0:
        return DistributedDataParallel(model, gradient_as_bucket_view=True), kind(model.parameters())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), kind)
    if stage == 1:
        return DistributedDataParallel(model, gradient_as_bucket_view=True), optimizer
    keep_own_gradients(list(model.parameters()), optimizer)
    return model, optimizer


def keep_own_gradients(parameters: list[nn.Parameter], optimizer: ZeroRedundancyOptimizer) -> None:
    """Stage 2: a gradient that is complete goes to the rank with its optimizer state; the others drop it."""
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = [one for group in optimizer.optim.param_groups for one in group["params"]]
    owners: list[Any] = [None] * world
    dist.all_gather_object(owners, [any(one is other for other in mine) for one in parameters])

    def reduce_to(owner: int, parameter: Any) -> None:
        dist.reduce(parameter.grad, dst=owner)
        if rank == owner:
            parameter.grad /= world
        else:
            parameter.grad = None

    for parameter, owns in zip(parameters, zip(*owners, strict=True), strict=True):
        parameter.register_post_accumulate_grad_hook(partial(reduce_to, owns.index(True)))
