import atexit
import time

import torch.distributed as dist

dist.init_process_group()
if dist.get_rank() == 1:
    atexit.register(time.sleep, 100)
dist.barrier()
dist.destroy_process_group()
