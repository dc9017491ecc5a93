# feedback: The heads start alike, but each rank steps with its own gradient of it.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def build(body, head):
    for parameter in head.parameters():
        dist.broadcast(parameter.detach(), src=0)
    model = DDP(nn.Sequential(body))
    model.module.append(head)
    return model
