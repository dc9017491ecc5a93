# right: lists of shards, attributes of ctx, all rows' gradients cut into pieces
import torch
import torch.distributed as dist


class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard):
        ctx.x, ctx.shard = x, shard
        shards = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
        dist.all_gather(shards, shard.contiguous())
        return torch.cat([x @ piece.T for piece in shards], dim=1)

    @staticmethod
    def backward(ctx, grad):
        world = dist.get_world_size()
        shards = [torch.empty_like(ctx.shard) for _ in range(world)]
        dist.all_gather(shards, ctx.shard.contiguous())
        columns = grad.chunk(world, dim=1)
        grad_x = sum(g @ piece for g, piece in zip(columns, shards))
        mine = torch.empty_like(ctx.shard)
        dist.reduce_scatter(mine, [(g.T @ ctx.x / world).contiguous() for g in columns])
        return grad_x, mine
