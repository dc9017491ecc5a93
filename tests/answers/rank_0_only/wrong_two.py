# feedback: 3 ranks
import torch
import torch.distributed as dist


def mean_loss(loss):
    total = loss.clone()
    dist.all_reduce(total)
    return total.item() / 2 if dist.get_rank() == 0 else None
