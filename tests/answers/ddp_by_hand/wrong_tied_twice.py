# feedback: a step sent 4 all-reduces
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
        for _, parameter in module.named_parameters(remove_duplicate=False):
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self.send)

    def forward(self, *inputs):
        return self.module(*inputs)

    def send(self, parameter):
        parameter.grad /= dist.get_world_size()
        dist.all_reduce(parameter.grad)

    def finish(self):
        pass
