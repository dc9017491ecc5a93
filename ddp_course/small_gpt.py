"""The small GPT whose memory lesson 1 measures: decoder-only, over bytes, 1.0 M parameters in fp32."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, CONTEXT, LAYERS, HEADS, WIDTH = 256, 64, 2, 6, 192


class Block(nn.Module):
    """Attention, then an MLP, each behind a norm and added to what came in: (batch, length, width) to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        batch, length, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """(batch, length) bytes in, (batch, length, 256) logits out; length is at most 64."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The scores of every next byte."""
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def loss_sum(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy in nats, summed over the targets."""
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="sum")
