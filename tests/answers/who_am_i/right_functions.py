# right: the process group and the environment
import os

import torch.distributed as dist


def who_am_i():
    return dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"]), dist.get_backend()
