# right: consolidate on every rank, ask on rank 0
import torch.distributed as dist


def optimizer_state(optimizer):
    optimizer.consolidate_state_dict(to=0)
    return optimizer.state_dict() if dist.get_rank() == 0 else None
