import os

import torch

torch.ones(2, device=f"cuda:{os.environ['LOCAL_RANK']}")
