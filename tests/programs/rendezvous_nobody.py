from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("gloo", init_method="tcp://127.0.0.1:9", rank=1, world_size=2, timeout=timedelta(seconds=1))
