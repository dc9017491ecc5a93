import torch
import torch.distributed as dist

dist.init_process_group()
values = torch.ones(2, 3) if dist.get_rank() == 0 else torch.ones(3, 2)
dist.all_reduce(values)
print(values.tolist())
dist.destroy_process_group()
