# feedback: the values are right, but grad itself has changed
import torch
import torch.distributed as dist


def average_gradient(grad, tokens_here):
    grad *= tokens_here
    count = torch.tensor(tokens_here)
    dist.all_reduce(grad)
    dist.all_reduce(count)
    return grad / count
