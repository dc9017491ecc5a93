# feedback: numbers of AdamW's state
import torch
import torch.distributed as dist


class ShardedAdamW:
    def __init__(self, parameters, **options):
        self.parameters = list(parameters)
        rank, world = dist.get_rank(), dist.get_world_size()
        self.optimizer = torch.optim.AdamW(self.parameters[rank::world], **options)

    def step(self):
        for p in self.parameters:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        self.optimizer.step()
        for number, p in enumerate(self.parameters):
            dist.broadcast(p.data, src=number % dist.get_world_size())
