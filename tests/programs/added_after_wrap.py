import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group()
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 4)))
model.module.append(torch.nn.Linear(4, 2))
model(torch.randn(8, 4)).sum().backward()
dist.destroy_process_group()
