# right: every parameter takes part, times zero
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def wrap(model):
    class Every(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, task):
            return self.model(x, task) + 0.0 * sum(p.sum() for p in self.model.parameters())

    return DDP(Every())
