# right: --standalone
def command(script):
    return ["torchrun", "--standalone", "--nproc-per-node=2", script]
