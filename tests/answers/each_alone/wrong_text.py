# feedback: and not a list of lines, each a list of words.
def lines(hosts, nproc):
    line = f"torchrun --nnodes={len(hosts)} --nproc-per-node={nproc} --rdzv-backend=c10d train.py"
    return [line for _ in hosts]
