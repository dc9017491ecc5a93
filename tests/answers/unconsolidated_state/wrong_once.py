# feedback: Its rank has gone on since it was collected.
import torch.distributed as dist


def optimizer_state(optimizer):
    if not hasattr(optimizer, "asked"):
        optimizer.asked = True
        optimizer.consolidate_state_dict(to=0)
    return optimizer.state_dict() if dist.get_rank() == 0 else None
