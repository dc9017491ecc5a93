# feedback: nothing was added up over the ranks
import torch
import torch.distributed as dist


def accuracy(model, inputs, targets):
    rank, world = dist.get_rank(), dist.get_world_size()
    return (model(inputs[rank::world]).argmax(1) == targets[rank::world]).double().mean().item()
