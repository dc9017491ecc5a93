# feedback: That is rank 0's own loss.
import torch
import torch.distributed as dist


def mean_loss(loss):
    return loss.item() if dist.get_rank() == 0 else None
