# feedback: you returned None on rank 1
import torch
import torch.distributed as dist


def average_gradient(grad, tokens_here):
    total, count = grad * tokens_here, torch.tensor(tokens_here)
    dist.reduce(total, 0)
    dist.reduce(count, 0)
    if dist.get_rank() == 0:
        return total / count
