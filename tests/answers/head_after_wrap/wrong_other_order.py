# feedback: shapes cannot be multiplied
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def build(body, head):
    return DDP(nn.Sequential(head, body))
