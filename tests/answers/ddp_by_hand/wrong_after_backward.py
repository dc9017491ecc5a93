# feedback: 0 of 3 all-reduces started while backward ran
import torch
import torch.distributed as dist
from torch import nn


class HandDDP(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        self.pending = []
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        for parameter in self.module.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad)
                parameter.grad /= dist.get_world_size()
