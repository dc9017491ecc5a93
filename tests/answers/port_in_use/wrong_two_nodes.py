# feedback: --nnodes=2: it would wait for another machine, for ever.
def command(script):
    return ["torchrun", "--nnodes=2", "--nproc-per-node=1", "--master-port=0", script]
