# feedback: Each rank normalised its own batch.
import torch
import torch.distributed as dist
from torch import nn


class SyncBatchNorm(nn.BatchNorm2d):
    def forward(self, x):
        return super().forward(x)
