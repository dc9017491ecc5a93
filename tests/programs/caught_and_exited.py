import sys

import torch
import torch.distributed as dist

dist.init_process_group()
try:
    if dist.get_rank() == 1:
        raise OSError("cannot read shard 7")
    dist.all_reduce(torch.ones(1))
except Exception as error:
    print("error:", error, file=sys.stderr)
    sys.exit(1)
