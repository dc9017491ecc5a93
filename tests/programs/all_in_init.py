import os
import sys

import torch.distributed as dist

if sys.argv[1] == "world_size":
    dist.init_process_group(rank=int(os.environ["RANK"]), world_size=4)
if sys.argv[1] == "rank":
    os.environ["RANK"] = "0"
if sys.argv[1] == "address":
    os.environ["MASTER_PORT"] = "9"
dist.init_process_group()
