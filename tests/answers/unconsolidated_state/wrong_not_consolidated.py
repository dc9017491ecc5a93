# feedback: state_dict() needs it gathered first
import torch.distributed as dist


def optimizer_state(optimizer):
    return optimizer.state_dict() if dist.get_rank() == 0 else None
