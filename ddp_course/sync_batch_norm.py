"""BatchNorm over the samples of all ranks: the course's, for the CPU, and the learner's once that has passed."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


class SumOverRanks(torch.autograd.Function):
    """The sum over all ranks. Each rank's input is in every rank's sum: the gradients are summed on the way back."""

    @staticmethod
    def forward(ctx: object, tensor: torch.Tensor) -> torch.Tensor:
        """Sum `tensor` over the ranks."""
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    backward = forward  # the same sum, of the gradients


class SyncBatchNorm(nn.BatchNorm2d):
    """nn.BatchNorm2d that, while training, takes its statistics from the samples of all ranks.

    One all-reduce of 2 · channels + 1 numbers in forward, and one in backward. A rank may have no samples. The
    gradients of weight and bias stay this rank's part of the sum, which DDP combines like all others.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(samples, channels, height, width) to the same. In eval mode as nn.BatchNorm2d, without communication."""
        if not self.training:
            return super().forward(x)
        channels = self.num_features
        values = x.transpose(0, 1).flatten(1)  # a row for each channel
        count = values.new_tensor([values.shape[1]])
        mine = torch.cat([values.sum(1), values.square().sum(1), count])
        total, squares, count = SumOverRanks.apply(mine).split([channels, channels, 1])
        mean = total / count
        variance = squares / count - mean.square()
        self._track(mean.detach(), variance.detach() * count.detach() / (count.detach() - 1))
        scale = (variance + self.eps).rsqrt() * self.weight
        return (x - _wide(mean)) * _wide(scale) + _wide(self.bias)

    def _track(self, mean: torch.Tensor, unbiased: torch.Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return  # track_running_stats=False
        self.num_batches_tracked += 1
        part = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, part)
        self.running_var.lerp_(unbiased, part)


def _wide(channel: torch.Tensor) -> torch.Tensor:
    return channel.view(1, -1, 1, 1)


def own() -> type[nn.BatchNorm2d]:
    """The learner's SyncBatchNorm where its check has passed, else the course's."""
    from ddp_course.by_hand import mine

    return mine("sync_batch_norm").get("SyncBatchNorm", SyncBatchNorm)


def convert(module: nn.Module) -> nn.Module:
    """`module` with `own()` in place of every BatchNorm2d in it, parameters and buffers kept.

    As `nn.SyncBatchNorm.convert_sync_batchnorm` does: layers inside a module are replaced in it; a layer that is
    itself given cannot be, so a new one is returned.
    """
    if isinstance(module, nn.BatchNorm2d):
        new = own()(module.num_features, module.eps, module.momentum, True, module.track_running_stats)
        new.weight, new.bias = module.weight, module.bias
        new.running_mean, new.running_var = module.running_mean, module.running_var
        new.num_batches_tracked = module.num_batches_tracked
        return new.train(module.training)
    for name, child in module.named_children():
        module.add_module(name, convert(child))
    return module
