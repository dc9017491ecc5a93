# feedback: the averaging divided a sum
import torch
import torch.distributed as dist


def loss_to_average(outputs, targets):
    return (outputs - targets).square().sum()
