# right: the count travels behind the gradient, in one all-reduce
import torch
import torch.distributed as dist


def mean_gradient(gradient, parameter):
    message = torch.zeros(parameter.numel() + 1, dtype=parameter.dtype)
    if gradient is not None:
        message[:-1], message[-1] = gradient.flatten(), 1
    dist.all_reduce(message)
    if message[-1] == 0:
        return None
    return (message[:-1] / message[-1]).view_as(parameter)
