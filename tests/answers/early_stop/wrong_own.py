# feedback: nothing was exchanged
import torch
import torch.distributed as dist


def should_stop(stop_here):
    return stop_here
