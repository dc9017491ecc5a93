# feedback: it took 3 collectives: all_reduce, all_reduce, all_reduce.
import torch
import torch.distributed as dist


def global_statistics(x):
    count = x.new_tensor(x.numel() / x.shape[1])
    sums, squares = x.sum((0, 2, 3)), x.square().sum((0, 2, 3))
    for part in (sums, squares, count):
        dist.all_reduce(part)
    mean = sums / count
    return mean, squares / count - mean.square(), int(count)
