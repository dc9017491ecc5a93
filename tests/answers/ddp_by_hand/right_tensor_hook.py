# right: hooks on the tensors, which return the mean
import torch
import torch.distributed as dist
from torch import nn


class HandDDP(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        self.pending = []
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, src=0)
        for parameter in filter(lambda p: p.requires_grad, module.parameters()):
            parameter.register_hook(self.mean)

    def forward(self, *inputs):
        return self.module(*inputs)

    def mean(self, grad):
        grad = grad / dist.get_world_size()
        dist.all_reduce(grad)
        return grad

    def finish(self):
        pass
