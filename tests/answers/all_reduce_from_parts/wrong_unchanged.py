# feedback: nothing was exchanged
import torch
import torch.distributed as dist


def sum_over_ranks(tensor):
    return tensor
