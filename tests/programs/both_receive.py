import torch
import torch.distributed as dist

dist.init_process_group()
other = 1 - dist.get_rank()
if dist.get_rank() < 2:
    dist.recv(torch.ones(2), src=other)
    dist.send(torch.ones(2), dst=other)
dist.barrier()
