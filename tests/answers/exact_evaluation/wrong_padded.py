# feedback: DistributedSampler repeated
import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler


def accuracy(model, inputs, targets):
    mine = list(DistributedSampler(targets, shuffle=False))
    result = torch.tensor([(model(inputs[mine]).argmax(1) == targets[mine]).sum(), len(mine)])
    dist.all_reduce(result)
    return (result[0] / result[1]).item()
