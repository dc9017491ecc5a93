# feedback: Is the number of ranks always 2
import torch
import torch.distributed as dist


def loss_to_average(outputs, targets):
    return (outputs - targets).square().sum() * 2
