# right: gradients live in the buckets, as with gradient_as_bucket_view
import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, parameters):
        self.parameters, self.missing, self.work = parameters, set(), None
        self.flat = torch.zeros(sum(p.numel() for p in parameters), dtype=parameters[0].dtype)
        self.views = dict(zip(parameters, self.flat.split([p.numel() for p in parameters])))
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self.take)
        self.start()

    def start(self):
        self.missing, self.work = set(self.parameters), None
        self.flat.zero_()

    def take(self, parameter):
        self.views[parameter].copy_(parameter.grad.flatten())
        self.missing.remove(parameter)
        if not self.missing:
            self.send()

    def send(self):
        self.flat /= dist.get_world_size()
        self.work = dist.all_reduce(self.flat, async_op=True)

    def finish(self):
        if self.work is None:
            self.send()
        self.work.wait()
        for parameter in self.parameters:
            parameter.grad = self.views[parameter].view_as(parameter).clone()
        self.start()


class BucketDDP(nn.Module):
    def __init__(self, module, cap):
        super().__init__()
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)
        self.buckets, open_bucket, size = [], [], 0
        for parameter in reversed([p for p in module.parameters() if p.requires_grad]):
            open_bucket.append(parameter)
            size += parameter.nbytes
            if size >= cap:
                self.buckets.append(Bucket(open_bucket))
                open_bucket, size = [], 0
        if open_bucket:
            self.buckets.append(Bucket(open_bucket))

    def forward(self, *inputs):
        return self.module(*inputs)

    def finish(self):
        for bucket in self.buckets:
            bucket.finish()
