# feedback: you returned None on rank 0
import os

import torch.distributed as dist


def who_am_i():
    print(dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"]), dist.get_backend())
