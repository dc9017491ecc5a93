# feedback: That is the mean of the ranks' means
import torch
import torch.distributed as dist


def global_statistics(x):
    channels = x.shape[1]
    count = x.numel() / channels
    means, squares = x.sum((0, 2, 3)) / max(count, 1), x.square().sum((0, 2, 3)) / max(count, 1)
    mine = torch.cat([means, squares, x.new_tensor([count])])
    dist.all_reduce(mine)
    mean, squares, count = mine.split([channels, channels, 1])
    mean, squares = mean / dist.get_world_size(), squares / dist.get_world_size()
    return mean, squares - mean.square(), int(count)
