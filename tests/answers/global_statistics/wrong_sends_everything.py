# feedback: a rank sent
import torch
import torch.distributed as dist


def global_statistics(x):
    channels, most = x.shape[1], 1000
    mine = x.new_full((channels, most), float("nan"))
    values = x.transpose(0, 1).flatten(1)
    mine[:, : values.shape[1]] = values
    every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(every, mine)
    values = torch.cat(every, 1)
    values = values[:, ~values[0].isnan()]
    return values.mean(1), values.var(1, correction=0), values.shape[1]
