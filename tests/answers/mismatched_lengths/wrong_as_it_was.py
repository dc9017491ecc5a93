# feedback: A collective needs the same shape
import torch
import torch.distributed as dist


def checked_all_reduce(tensor):
    dist.all_reduce(tensor)
