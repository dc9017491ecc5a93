# feedback: after 3 steps
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def wrap(model):
    model.heads[1].requires_grad_(False)
    return DDP(model, find_unused_parameters=True)
