# feedback: Each rank trains a head of its own, from its own start.
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def build(body, head):
    model = DDP(nn.Sequential(body))
    model.module.append(head)
    return model
