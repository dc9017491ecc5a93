# right: lists of pieces instead of one tensor
import torch
import torch.distributed as dist


def sum_over_ranks(tensor):
    world = dist.get_world_size()
    missing = -len(tensor) % world
    pieces = list(torch.nn.functional.pad(tensor, (0, missing)).chunk(world))
    mine = torch.empty_like(pieces[0])
    dist.reduce_scatter(mine, pieces)
    whole = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(whole, mine)
    return torch.cat(whole)[: len(tensor)]
