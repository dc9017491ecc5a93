# right: zeros and 0 where there is no gradient; two all-reduces
import torch
import torch.distributed as dist


def mean_gradient(gradient, parameter):
    total = torch.zeros_like(parameter) if gradient is None else gradient.clone()
    count = torch.tensor(0 if gradient is None else 1)
    dist.all_reduce(total)
    dist.all_reduce(count)
    return total / count if count else None
