import os

import torch.distributed as dist

del os.environ["RANK"]
dist.init_process_group("gloo")
