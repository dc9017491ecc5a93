# feedback: never got back into them
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
        dist.reduce_scatter_single(self.share.grad, whole)
        self.share.grad /= dist.get_world_size()
        self.optimizer.step()
        dist.all_gather_single(whole, self.share)
