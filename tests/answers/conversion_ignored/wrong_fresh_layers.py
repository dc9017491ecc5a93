# feedback: weight: expected
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from ddp_course.sync_batch_norm import SyncBatchNorm


def prepare(model):
    if isinstance(model, nn.BatchNorm2d):
        return DDP(SyncBatchNorm(model.num_features).double())
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                setattr(parent, name, SyncBatchNorm(child.num_features).double())
    return DDP(model)
