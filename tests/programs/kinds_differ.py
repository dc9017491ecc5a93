import torch
import torch.distributed as dist

dist.init_process_group()
if dist.get_rank() == 0:
    dist.all_reduce(torch.ones(2))
else:
    dist.broadcast(torch.ones(2), src=0)
dist.destroy_process_group()
