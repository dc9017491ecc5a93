# feedback: No rank has a gradient: there is no mean to return.
import torch
import torch.distributed as dist


def mean_gradient(gradient, parameter):
    total = torch.zeros_like(parameter) if gradient is None else gradient
    count = torch.tensor(0 if gradient is None else 1)
    dist.all_reduce(total)
    dist.all_reduce(count)
    return total / max(1, count.item())
