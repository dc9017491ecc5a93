# right: without a port, one node is as good as standalone
def command(script):
    return ["torchrun", "--nproc-per-node", "2", script]
