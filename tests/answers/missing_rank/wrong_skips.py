# feedback: A collective ends only when every rank of the group has called it.
import torch.distributed as dist


def mean_gradient(gradient, parameter):
    if gradient is None:
        return None
    dist.all_reduce(gradient)
    return gradient / dist.get_world_size()
