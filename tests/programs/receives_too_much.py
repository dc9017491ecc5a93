import torch
import torch.distributed as dist

dist.init_process_group()
if dist.get_rank() == 0:
    dist.send(torch.arange(8.0), dst=1)
elif dist.get_rank() == 1:
    dist.recv(torch.zeros(4), src=0)
dist.destroy_process_group()
