# feedback: own number, times the ranks
import torch
import torch.distributed as dist


def global_statistics(x):
    channels = x.shape[1]
    count = x.new_tensor([x.shape[0] * x.shape[2] * x.shape[3]])
    total = torch.cat([x.sum((0, 2, 3)), x.square().sum((0, 2, 3)), count])
    dist.all_reduce(total)
    sums, squares, count = total.split([channels, channels, 1])
    mean = sums / count
    return mean, squares / count - mean.square(), x.shape[0] * x.shape[2] * x.shape[3] * dist.get_world_size()
