"""Two training steps under the profiler, with buckets of 1 MiB and then one bucket for all."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import profile

from ddp_course import report


def profiled_step(cap):
    model = DDP(nn.Sequential(*[nn.Linear(512, 512) for _ in range(6)]), bucket_cap_mb=cap)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        with profile() as prof:
            model(torch.ones(64, 512)).sum().backward()
            optimizer.step()
    model(torch.ones(64, 512))  # DDP logs a step when the next one begins
    data = model._get_ddp_logging_data()
    report(cap=cap, profile=prof, ddp_ms=data["backward_comm_time"] / 1e6, buckets=data["rebuilt_bucket_sizes"])


dist.init_process_group("gloo")
for cap in (1, 100):
    profiled_step(cap)
print("done")
dist.destroy_process_group()
