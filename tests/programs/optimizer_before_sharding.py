import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group()
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
fully_shard(model)
model(torch.ones(1, 8)).sum().backward()
optimizer.step()
dist.destroy_process_group()
