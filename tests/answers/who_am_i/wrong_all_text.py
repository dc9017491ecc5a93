# feedback: ranks and sizes are numbers
import os

import torch.distributed as dist


def who_am_i():
    return *(os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")), dist.get_backend()
