import time

import torch
import torch.distributed as dist

dist.init_process_group()
if dist.get_rank() == 0:
    time.sleep(0.5)
    torch.save({"step": 1}, "checkpoint.pt")
torch.load("checkpoint.pt", weights_only=True)
dist.barrier()
