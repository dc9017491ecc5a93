# right: every rank reduces, rank 0 returns
import torch
import torch.distributed as dist


def mean_loss(loss):
    total = loss.clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size() if dist.get_rank() == 0 else None
