import torch
import torch.distributed as dist

dist.init_process_group()
if dist.get_rank() == 1:
    raise ValueError("no such class: 12")
dist.all_reduce(torch.ones(3))
dist.destroy_process_group()
