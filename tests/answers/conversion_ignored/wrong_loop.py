# feedback: BatchNorm2d is still in the model that you return.
from torch.nn.parallel import DistributedDataParallel as DDP

from ddp_course.sync_batch_norm import convert


def prepare(model):
    for layer in list(model.children()) or [model]:
        convert(layer)
    return DDP(model)
