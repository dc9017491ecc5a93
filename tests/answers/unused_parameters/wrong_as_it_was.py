# feedback: Expected to have finished reduction in the prior iteration
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def wrap(model):
    return DDP(model)
