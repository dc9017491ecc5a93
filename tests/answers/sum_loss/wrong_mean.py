# feedback: That is the gradient of a mean loss
import torch
import torch.distributed as dist


def loss_to_average(outputs, targets):
    return (outputs - targets).square().mean()
