# right: contiguous chunks, hits and counts gathered
import torch
import torch.distributed as dist


@torch.no_grad()
def accuracy(model, inputs, targets):
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = torch.arange(len(targets)).tensor_split(world)[rank]
    result = torch.zeros(2)
    if len(mine):
        result += torch.tensor([(model(inputs[mine]).argmax(1) == targets[mine]).sum(), len(mine)])
    everyone = [torch.empty(2) for _ in range(world)]
    dist.all_gather(everyone, result)
    hits, count = sum(everyone)
    return hits / count
