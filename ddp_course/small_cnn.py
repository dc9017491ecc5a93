"""Real images and the small convolutional net with BatchNorm that lesson 3 trains on them.

The images are scikit-learn's digits: 1,797 scans of 8 × 8 pixels. Everything is float64, so that trainings that
should be equal are equal in every digit shown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from torch import nn

TRAIN, SHARDS = 1496, 4  # images to train on, and the shards they lie in, sorted by their digit


@cache
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """All images, (1797, 1, 8, 8) between 0 and 1, and which digit each one shows."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return torch.from_numpy(images).view(-1, 1, 8, 8) / 16, torch.from_numpy(labels).long()


@cache
def sorted_shards() -> torch.Tensor:
    """(4, 374): the numbers of the training images, sorted by digit and cut: shard 0 holds the smallest digits."""
    return digits()[1][:TRAIN].argsort(stable=True).view(SHARDS, -1)


def sorted_batch(step: int, each: int, rank: int, world: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`each` images of every shard that is this rank's, with their labels: one shard on 4 ranks, all four on one.

    All ranks together get the same images in a step, however many ranks there are.
    """
    generator = torch.Generator().manual_seed(step)
    shards = sorted_shards()
    picked = torch.stack([shard[torch.randperm(len(shard), generator=generator)[:each]] for shard in shards])
    mine = picked[rank::world].flatten()
    return digits()[0][mine], digits()[1][mine]


def accuracy(model: nn.Module) -> float:
    """The share of the 301 images kept for testing that `model` reads rightly, in eval mode; it stays in its mode."""
    images, labels = (tensor[TRAIN:] for tensor in digits())
    before = model.training
    model.eval()
    with torch.no_grad():
        right = model(images).argmax(1) == labels
    model.train(before)
    return right.double().mean().item()


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor) -> None:
    """One step on the mean cross-entropy of a batch."""
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def small_cnn(norm: str = "batch") -> nn.Sequential:
    """Two convolutions, each with a norm of its channels, and a linear layer: (n, 1, 8, 8) in, (n, 10) out.

    `norm` is "batch", or "group" for 4 groups. The weights are the same each time.

    The second convolution leaves one position: its norm sees as many values of a channel as there are images.
    """
    # With the usual eps of 1e-5, a norm of two images is almost the sign of their difference. A training on batches of
    # two is then chaotic: 1e-13 more in a weight, as another processor rounds, and it ends with another accuracy.
    batch = partial(nn.BatchNorm2d, eps=0.01)
    kinds: dict[str, Callable[[int], nn.Module]] = {"batch": batch, "group": partial(nn.GroupNorm, 4)}
    make = kinds[norm]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1, bias=False),
            make(8),
            nn.ReLU(),
            nn.Conv2d(8, 32, 4, bias=False),
            make(32),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32, 10),
        ).double()
