# feedback: you returned None on every rank
import torch
import torch.distributed as dist


def should_stop(stop_here):
    wish = torch.tensor(int(stop_here))
    dist.all_reduce(wish, dist.ReduceOp.MAX)
