# feedback: and their gradients were not averaged
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def wrap(model):
    return model
