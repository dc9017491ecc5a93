import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

dist.init_process_group()
model = torch.nn.Linear(8, 8)
optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
model(torch.ones(1, 8)).sum().backward()
optimizer.step()
if dist.get_rank() == 0:
    optimizer.consolidate_state_dict(to=0)
dist.destroy_process_group()
