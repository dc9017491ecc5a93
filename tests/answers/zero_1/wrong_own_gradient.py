# feedback: updated with its own rank's gradient
import torch
import torch.distributed as dist
import torch.nn.functional as F


class ShardedAdamW:
    def __init__(self, parameters, **options):
        self.parameters = list(parameters)
        self.sizes = [p.numel() for p in self.parameters]
        self.padding = -sum(self.sizes) % dist.get_world_size()
        whole = self.flatten(p.detach() for p in self.parameters)
        self.share = whole.chunk(dist.get_world_size())[dist.get_rank()].clone()
        self.optimizer = torch.optim.AdamW([self.share], **options)

    def flatten(self, tensors):
        return F.pad(torch.cat([tensor.flatten() for tensor in tensors]), (0, self.padding))

    def step(self):
        whole = self.flatten(p.grad for p in self.parameters)
        self.share.grad = torch.empty_like(self.share)
        self.share.grad = whole.chunk(dist.get_world_size())[dist.get_rank()].clone()
        self.optimizer.step()
        dist.all_gather_single(whole, self.share)
        for p, values in zip(self.parameters, whole.split([*self.sizes, self.padding])):
            p.detach().copy_(values.view_as(p))
