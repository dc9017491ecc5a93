import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group()
model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.BatchNorm1d(4))
if "wrapped" in sys.argv:
    model = DistributedDataParallel(model)
model(torch.randn(8, 4))
