# feedback: state_dict() needs it gathered first
import torch.distributed as dist


def optimizer_state(optimizer):
    optimizer.consolidate_state_dict(to=1)
    return optimizer.state_dict() if dist.get_rank() == 0 else None
