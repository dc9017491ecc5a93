import resource

import torch

resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
torch.zeros(16 << 30, dtype=torch.uint8)
