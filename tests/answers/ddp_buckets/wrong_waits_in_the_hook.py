# feedback: all-reduces made backward wait
import torch
import torch.distributed as dist
from torch import nn


class BucketDDP(nn.Module):
    def __init__(self, module, cap):
        super().__init__()
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)
        self.buckets, room = [], 0
        for parameter in reversed([p for p in module.parameters() if p.requires_grad]):
            if room <= 0:
                self.buckets.append([])
                room = cap
            self.buckets[-1].append(parameter)
            room -= parameter.numel() * parameter.element_size()
        for bucket in self.buckets:
            for parameter in bucket:
                parameter.register_post_accumulate_grad_hook(self.hook(bucket))
        self.reset()

    def reset(self):
        self.ready = {id(bucket): 0 for bucket in self.buckets}
        self.sent = {}

    def hook(self, bucket):
        def count(parameter):
            self.ready[id(bucket)] += 1
            if self.ready[id(bucket)] == len(bucket):
                self.send(bucket)

        return count

    def send(self, bucket):
        for parameter in bucket:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        flat = torch.cat([parameter.grad.flatten() for parameter in bucket])
        work = dist.all_reduce(flat, async_op=True)
        work.wait()
        self.sent[id(bucket)] = (flat, work)

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        for bucket in self.buckets:
            if id(bucket) not in self.sent:
                self.send(bucket)
        for bucket in self.buckets:
            flat, work = self.sent[id(bucket)]
            work.wait()
            parts = (flat / dist.get_world_size()).split([parameter.numel() for parameter in bucket])
            for parameter, part in zip(bucket, parts):
                parameter.grad.copy_(part.view_as(parameter))
        self.reset()
