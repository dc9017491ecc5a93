# right: rank 0 gathers
import torch
import torch.distributed as dist


def mean_loss(loss):
    mine = dist.get_rank() == 0
    losses = [torch.empty_like(loss) for _ in range(dist.get_world_size())] if mine else None
    dist.gather(loss, losses, dst=0)
    return torch.stack(losses).mean() if mine else None
