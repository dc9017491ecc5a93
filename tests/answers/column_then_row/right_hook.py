# right: a hook on a copy of x, and a function for the sum
import torch
import torch.distributed as dist
import torch.nn.functional as F


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad


def mlp(x, up, down):
    def sum_over_ranks(grad):
        total = grad.clone()
        dist.all_reduce(total)
        return total

    here = x.clone()
    here.register_hook(sum_over_ranks)
    return Add.apply(F.gelu(here @ up) @ down)
