# feedback: A collective ends only when every rank of the group has called it.
import torch
import torch.distributed as dist


def mean_loss(loss):
    if dist.get_rank() == 0:
        total = loss.clone()
        dist.all_reduce(total)
        return total.item() / dist.get_world_size()
