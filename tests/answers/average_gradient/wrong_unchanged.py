# feedback: nothing was exchanged
import torch
import torch.distributed as dist


def average_gradient(grad, tokens_here):
    return grad
