# feedback: That is the mean of the ranks' variances. It misses how far the ranks' means lie apart.
import torch
import torch.distributed as dist


def global_statistics(x):
    channels = x.shape[1]
    count = x.new_tensor([x.numel() / channels])
    mine = torch.cat([x.sum((0, 2, 3)), x.var((0, 2, 3), correction=0), count])
    dist.all_reduce(mine)
    sums, variance, count = mine.split([channels, channels, 1])
    return sums / count, variance / dist.get_world_size(), int(count)
