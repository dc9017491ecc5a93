# right: all-reduce the sum and the count
import torch
import torch.distributed as dist


def average_gradient(grad, tokens_here):
    total = grad * tokens_here
    count = torch.tensor(tokens_here)
    dist.all_reduce(total)
    dist.all_reduce(count)
    return total / count
