# feedback: you returned None on rank 1
import torch.distributed as dist


def accuracy(model, inputs, targets):
    rank, world = dist.get_rank(), dist.get_world_size()
    hits = (model(inputs[rank::world]).argmax(1) == targets[rank::world]).sum()
    dist.reduce(hits, dst=0)
    if rank == 0:
        return hits.item() / len(targets)
