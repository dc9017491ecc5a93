# feedback: × too much
import torch
import torch.distributed as dist


def loss_to_average(outputs, targets):
    return (outputs - targets).square().sum() * dist.get_world_size() ** 2
