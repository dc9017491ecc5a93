# feedback: That is the unbiased variance, divided by one less.
import torch
import torch.distributed as dist


def global_statistics(x):
    channels = x.shape[1]
    mine = torch.cat([x.sum((0, 2, 3)), x.square().sum((0, 2, 3)), x.new_tensor([x.numel() / channels])])
    dist.all_reduce(mine)
    sums, squares, count = mine.split([channels, channels, 1])
    mean = sums / count
    return mean, (squares - count * mean.square()) / (count - 1), int(count)
