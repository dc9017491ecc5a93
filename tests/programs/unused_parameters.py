import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used = torch.nn.Linear(4, 2)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


dist.init_process_group()
model = DistributedDataParallel(Net())
for _ in range(2):
    loss = model(torch.randn(8, 4)).sum()
    loss.backward()
dist.destroy_process_group()
