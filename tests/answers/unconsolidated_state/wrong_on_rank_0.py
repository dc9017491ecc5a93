# feedback: consolidate_state_dict() gathers every rank's part of the optimizer state: it is a collective
import torch.distributed as dist


def optimizer_state(optimizer):
    if dist.get_rank() == 0:
        optimizer.consolidate_state_dict(to=0)
        return optimizer.state_dict()
