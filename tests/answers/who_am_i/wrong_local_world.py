# feedback: The world is all processes of all nodes
import os

import torch.distributed as dist


def who_am_i():
    return dist.get_rank(), int(os.environ["LOCAL_WORLD_SIZE"]), int(os.environ["LOCAL_RANK"]), dist.get_backend()
