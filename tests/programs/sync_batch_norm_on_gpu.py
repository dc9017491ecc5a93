"""nn.SyncBatchNorm against the course's on GPUs, two steps: prints the largest difference of everything compared."""

import os

import torch
import torch.distributed as dist
from torch import nn

from ddp_course.sync_batch_norm import SyncBatchNorm

dist.init_process_group("nccl" if torch.cuda.device_count() > 1 else "gloo")  # gloo shares one GPU
rank = dist.get_rank()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
torch.manual_seed(0)
layers = [kind(3, momentum=0.3).to(device, torch.float64) for kind in (nn.SyncBatchNorm, SyncBatchNorm)]
worst = 0.0
for _ in range(2):
    x = torch.randn(2 + 3 * rank, 3, 4, 4, dtype=torch.float64).to(device) * (1 + rank) + rank  # unequal batches
    toward = torch.randn_like(x)
    seen = []
    for layer in layers:
        layer.zero_grad()
        mine = x.clone().requires_grad_()
        output = layer(mine)
        (output * toward).sum().backward()
        seen.append([output, mine.grad, layer.weight.grad, layer.bias.grad, layer.running_mean, layer.running_var])
    worst = max(worst, *[(a - b).abs().max().item() for a, b in zip(*seen, strict=True)])
print(f"{worst:.1e}")
dist.destroy_process_group()
