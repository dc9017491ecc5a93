import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group(timeout=timedelta(seconds=1))
if dist.get_rank() == 1:
    time.sleep(60)
dist.all_reduce(torch.ones(4))
