# feedback: the averaging divided a sum
import torch
import torch.distributed as dist


def loss_to_average(outputs, targets):
    loss = (outputs - targets).square().sum()
    total = loss.detach().clone()
    dist.all_reduce(total)
    return loss + total
