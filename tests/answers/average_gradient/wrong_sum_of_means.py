# feedback: is the sum of the ranks' means
import torch
import torch.distributed as dist


def average_gradient(grad, tokens_here):
    result = grad.clone()
    dist.all_reduce(result)
    return result
