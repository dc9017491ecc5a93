import sys

import torch
import torch.distributed as dist

dist.init_process_group()
rank = dist.get_rank()
if sys.argv[1] == "broadcast":
    dist.broadcast(torch.ones(4), src=rank)
else:
    dist.reduce(torch.ones(4), dst=rank)
    dist.barrier()
