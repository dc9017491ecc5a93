import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group()
model = DistributedDataParallel(torch.nn.Linear(4, 2))
batches = 5 if dist.get_rank() == 0 else 4
for _ in range(batches):
    model(torch.randn(8, 4)).sum().backward()
dist.destroy_process_group()
