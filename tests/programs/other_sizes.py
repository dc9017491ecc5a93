import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group()
odd = dist.get_rank() == int(sys.argv[2])
dtype = torch.float64 if odd else torch.float32
if sys.argv[1] == "elements":
    dist.all_reduce(torch.ones(20 if odd else 10))
elif sys.argv[1] == "dtype":
    dist.all_reduce(torch.ones(4, dtype=dtype))
elif sys.argv[1] == "model":
    model = DDP(torch.nn.Linear(4, 4).to(dtype))
    model(torch.ones(2, 4, dtype=dtype)).sum().backward()
