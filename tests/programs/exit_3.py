import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group()
if dist.get_rank() == 1:
    os._exit(3) if "hard" in sys.argv else sys.exit(3)
dist.all_reduce(torch.ones(3))
