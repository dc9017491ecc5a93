import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group()
fewer = dist.get_rank() == 2
model = DDP(torch.nn.Linear(4, 1))
for _ in range(10 - (fewer and sys.argv[1] == "ddp")):
    model(torch.ones(1, 4)).sum().backward()
if sys.argv[1] == "loops":
    for _ in range(3 - fewer):
        dist.all_reduce(torch.ones(5))
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
