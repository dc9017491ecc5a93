# right: each rank sends its own part to rank 0, which merges them
import torch.distributed as dist


def optimizer_state(optimizer):
    groups = optimizer.param_groups
    parameters = [p for group in groups for p in group["params"]]
    local = optimizer.optim.state
    mine = {number: local[p] for number, p in enumerate(parameters) if p in local}
    parts = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(mine, parts, dst=0)
    if parts is not None:
        return {"state": {n: s for part in parts for n, s in part.items()}, "param_groups": groups}
