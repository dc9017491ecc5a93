"""Decoders of real sizes, sharded as FSDP2 does over ranks that do not exist, and what they would send.

PyTorch's fake process group answers every collective at once, without data; on the meta device a tensor has a
shape and no bytes. So one process can be rank 0 of 16,384. Call `pretend` first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddp_course.traffic import Collectives

_HEAD = 128  # width of an attention head


@dataclass(frozen=True)
class Dims:
    """The dimensions of a Llama-like decoder; `kv` is the width of its keys and values."""

    width: int
    layers: int
    hidden: int
    vocabulary: int
    kv: int


# The Llama 3 models (Grattafiori et al. 2024, table 3), without ties between the two tables.
DECODERS = {
    "8 B": Dims(4096, 32, 14336, 128256, 1024),
    "70 B": Dims(8192, 80, 28672, 128256, 1024),
    "405 B": Dims(16384, 126, 53248, 128256, 1024),
}


class Block(nn.Module):
    """Attention with shared keys and values, then a gated MLP: (batch, length, width) to the same."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(dims.width), nn.RMSNorm(dims.width)
        self.q, self.out = (nn.Linear(dims.width, dims.width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(dims.width, dims.kv, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(dims.width, dims.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(dims.hidden, dims.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block, without position embeddings: they have no parameters."""
        batch, length, _ = x.shape
        y = self.norm1(x)
        q, k, v = (part(y).view(batch, length, -1, _HEAD).transpose(1, 2) for part in (self.q, self.k, self.v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """(batch, length) tokens in, (batch, length, vocabulary) scores out."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.tokens = nn.Embedding(dims.vocabulary, dims.width)
        self.blocks = nn.Sequential(*[Block(dims) for _ in range(dims.layers)])
        self.norm, self.head = nn.RMSNorm(dims.width), nn.Linear(dims.width, dims.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The scores of every next token."""
        return self.head(self.norm(self.blocks(self.tokens(tokens))))


def pretend(ranks: int) -> None:
    """Make this process rank 0 of `ranks`, with PyTorch's fake process group as the default one."""
    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())


def shard(dims: Dims, ranks: int) -> Decoder:
    """The decoder on the meta device, each block and then the rest sharded over the first `ranks` ranks."""
    mesh = DeviceMesh("cpu", torch.arange(ranks))
    with torch.device("meta"):
        model = Decoder(dims)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def share(dims: Dims, ranks: int) -> tuple[int, int]:
    """(parameters of the model, those of them that rank 0 holds) after sharding over `ranks` ranks.

    The blocks are alike: one is sharded and counted `dims.layers` times. No rank holds more than rank 0.
    """
    model = shard(Dims(dims.width, 1, dims.hidden, dims.vocabulary, dims.kv), ranks)
    rest, block = dims.layers - 1, list(model.blocks.parameters())
    whole = sum(p.numel() for p in model.parameters()) + rest * sum(p.numel() for p in block)
    here = sum(held(p) for p in model.parameters()) + rest * sum(held(p) for p in block)
    return whole, here


def held(parameter: Any) -> int:
    """How many numbers of a sharded parameter this rank holds."""
    return int(parameter.to_local().numel())


def trace(model: Decoder, length: int = 64) -> list[tuple[str, int]]:
    """The collectives of one forward and backward of a sharded decoder, on tensors that have no data either.

    The batch is one text of `length` tokens: what is sent does not depend on it.
    """
    with FakeTensorMode(allow_non_fake_inputs=True), Collectives() as collectives:
        model.to_empty(device="cpu")
        model(torch.zeros(1, length, dtype=torch.long)).mean().backward()
    return collectives.log
