# feedback: That is the mean of the ranks' means
import torch
import torch.distributed as dist


def global_statistics(x):
    channels = x.shape[1]
    count = x.numel() / channels
    sums, squares = x.sum((0, 2, 3)), x.square().sum((0, 2, 3))
    mine = torch.cat([sums, squares, sums / max(count, 1), x.new_tensor([count])])
    dist.all_reduce(mine)
    sums, squares, mean, count = mine.split([channels, channels, channels, 1])
    return mean / dist.get_world_size(), squares / count - (sums / count).square(), int(count)
