# right: the ranks counted by an all-reduce
import torch
import torch.distributed as dist


def loss_to_average(outputs, targets):
    ranks = torch.ones(())
    dist.all_reduce(ranks)
    return torch.nn.functional.mse_loss(outputs, targets, reduction="sum") * ranks
