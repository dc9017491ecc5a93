# feedback: That is the sum over the ranks
import torch
import torch.distributed as dist


def gather(shard):
    weight = shard.new_empty(len(shard) * dist.get_world_size(), shard.shape[1])
    dist.all_gather_single(weight, shard)
    return weight


class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard):
        ctx.save_for_backward(x, shard)
        return x @ gather(shard).T

    @staticmethod
    def backward(ctx, grad):
        x, shard = ctx.saved_tensors
        mine = torch.empty_like(shard)
        dist.reduce_scatter_single(mine, grad.T @ x)
        return grad @ gather(shard), mine
