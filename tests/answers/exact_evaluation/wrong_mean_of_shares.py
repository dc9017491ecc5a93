# feedback: is the mean of the ranks' shares
import torch
import torch.distributed as dist


def accuracy(model, inputs, targets):
    rank, world = dist.get_rank(), dist.get_world_size()
    share = (model(inputs[rank::world]).argmax(1) == targets[rank::world]).double().mean()
    dist.all_reduce(share)
    return share.item() / world
