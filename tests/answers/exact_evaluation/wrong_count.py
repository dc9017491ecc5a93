# feedback: is the number of hits
import torch
import torch.distributed as dist


def accuracy(model, inputs, targets):
    rank, world = dist.get_rank(), dist.get_world_size()
    hits = (model(inputs[rank::world]).argmax(1) == targets[rank::world]).sum()
    dist.all_reduce(hits)
    return hits.item()
