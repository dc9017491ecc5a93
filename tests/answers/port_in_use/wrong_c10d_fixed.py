# feedback: the second run finds port 29600 taken and asks to join the first one
def command(script):
    return ["torchrun", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:29600", "--nproc-per-node=2", script]
