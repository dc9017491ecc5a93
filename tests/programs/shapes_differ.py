import torch
import torch.distributed as dist

dist.init_process_group()
values = torch.ones(4 if dist.get_rank() == 1 else 3)
dist.all_reduce(values)
print(values.tolist())
dist.destroy_process_group()
