import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group()
model = DistributedDataParallel(torch.nn.Linear(2, 2))
torch.nn.Linear(2, 2).load_state_dict(model.state_dict())
