# feedback: SyncBatchNorm layers only work with GPU modules
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from ddp_course.sync_batch_norm import convert


def prepare(model):
    return DDP(nn.SyncBatchNorm.convert_sync_batchnorm(model))
