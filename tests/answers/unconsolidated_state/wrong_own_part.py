# feedback: another rank has its state
import torch.distributed as dist


def optimizer_state(optimizer):
    return optimizer.optim.state_dict() if dist.get_rank() == 0 else None
