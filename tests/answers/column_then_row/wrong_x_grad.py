# feedback: x went to every rank
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
    return Add.apply(F.gelu(x @ up) @ down)
