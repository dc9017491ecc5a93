# feedback: only rank 0 was to return it
import torch
import torch.distributed as dist


def mean_loss(loss):
    total = loss.clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()
