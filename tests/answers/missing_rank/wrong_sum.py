# feedback: That is the sum.
import torch
import torch.distributed as dist


def mean_gradient(gradient, parameter):
    total = torch.zeros_like(parameter) if gradient is None else gradient
    dist.all_reduce(total)
    return total
