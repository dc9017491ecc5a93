# feedback: you returned nan
import torch
import torch.distributed as dist


def global_statistics(x):
    channels = x.shape[1]
    count = x.numel() / channels
    mean = x.mean((0, 2, 3))
    mine = torch.cat([mean * count, x.square().mean((0, 2, 3)) * count, x.new_tensor([count])])
    dist.all_reduce(mine)
    sums, squares, count = mine.split([channels, channels, 1])
    mean = sums / count
    return mean, squares / count - mean.square(), int(count)
