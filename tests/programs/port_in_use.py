import socket

import torch.distributed as dist

taken = socket.socket()
taken.bind(("0.0.0.0", 0))
taken.listen()
dist.TCPStore("127.0.0.1", taken.getsockname()[1], 1, is_master=True)
