# feedback: 'tuple' object is not callable
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def build(body, head):
    return DDP(body), DDP(head)
