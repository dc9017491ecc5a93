import os

import torch.distributed as dist

os.environ["GLOO_SOCKET_IFNAME"] = "eth77"
dist.init_process_group("gloo")
