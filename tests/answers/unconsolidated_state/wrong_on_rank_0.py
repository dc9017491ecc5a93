# feedback: optimizer.consolidate_state_dict(to=0)
import torch.distributed as dist


def optimizer_state(optimizer):
    if dist.get_rank() == 0:
        optimizer.consolidate_state_dict(to=0)
        return optimizer.state_dict()
