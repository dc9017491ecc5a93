# feedback: rank 1 returned, but rank 0 still waits in line 9: dist.all_reduce(grad)
import torch
import torch.distributed as dist


def average_gradient(grad, tokens_here):
    grad = grad.clone()
    if dist.get_rank() == 0:
        dist.all_reduce(grad)
    return grad
