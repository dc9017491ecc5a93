# feedback: rank 0 alone needs it
import torch.distributed as dist


def optimizer_state(optimizer):
    optimizer.consolidate_state_dict(to=0)
    return optimizer.state_dict() if dist.get_rank() == 0 else optimizer.optim.state_dict()
