import os
import signal
import sys

import torch.distributed as dist

dist.init_process_group()
if dist.get_rank() == 1 and sys.argv[1] == "raise":
    raise KeyboardInterrupt
if dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGINT)
dist.barrier()
