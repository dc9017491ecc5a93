import torch
import torch.distributed as dist

dist.init_process_group()
values = torch.ones(2)
dist.all_reduce(values)
if dist.get_rank() == 0:
    dist.broadcast(values, src=0, async_op=True)
