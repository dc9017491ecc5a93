# right: each parameter in N padded pieces of its own
import torch
import torch.distributed as dist


class ShardedAdamW:
    def __init__(self, parameters, **options):
        self.parameters = list(parameters)
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        self.shares = [self.pieces(p.data)[self.rank].clone() for p in self.parameters]
        self.optimizer = torch.optim.AdamW(self.shares, **options)

    def pieces(self, tensor):
        flat = tensor.flatten()
        flat = torch.cat([flat, flat.new_zeros(-len(flat) % self.world)])
        return list(flat.chunk(self.world))

    @torch.no_grad()
    def step(self):
        for p, share in zip(self.parameters, self.shares):
            share.grad = torch.empty_like(share)
            dist.reduce_scatter(share.grad, self.pieces(p.grad))
            share.grad.div_(self.world)
        self.optimizer.step()
        for p, share in zip(self.parameters, self.shares):
            pieces = [torch.empty_like(share) for _ in range(self.world)]
            dist.all_gather(pieces, share)
            p.copy_(torch.cat(pieces)[: p.numel()].view_as(p))
