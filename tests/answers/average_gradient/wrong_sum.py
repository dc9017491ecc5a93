# feedback: is the sum over all tokens: it still has to be divided by their number
import torch
import torch.distributed as dist


def average_gradient(grad, tokens_here):
    total = grad * tokens_here
    dist.all_reduce(total)
    return total
