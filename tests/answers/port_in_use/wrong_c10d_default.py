# feedback: the second run finds port 29400 taken and asks to join the first one
def command(script):
    return ["torchrun", "--rdzv-backend=c10d", "--nproc-per-node=2", script]
