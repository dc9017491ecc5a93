# feedback: loss itself has changed
import torch
import torch.distributed as dist


def mean_loss(loss):
    dist.all_reduce(loss)
    return loss.item() / dist.get_world_size() if dist.get_rank() == 0 else None
