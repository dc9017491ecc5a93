import torch
import torch.distributed as dist

dist.init_process_group()
loss = torch.ones(1)
if dist.get_rank() == 0:
    dist.all_reduce(loss)
    print(loss.item())
