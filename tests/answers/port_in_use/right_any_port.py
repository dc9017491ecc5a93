# right: c10d at port 0, which means any that is free
def command(script):
    options = "--rdzv-backend=c10d --rdzv-endpoint=localhost:0 --nnodes=1 --nproc-per-node=2"
    return ["torchrun", *options.split(), script]
