# feedback: That is each rank's own mean.
import torch
import torch.distributed as dist


def global_statistics(x):
    if len(x) == 0:
        return torch.zeros(x.shape[1]), torch.zeros(x.shape[1]), 0
    return x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0), x.numel() // x.shape[1]
