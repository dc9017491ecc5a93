# feedback: --nnodes=1, and the job has 2 machines.
def lines(hosts, nproc):
    return [["torchrun", f"--nproc-per-node={nproc}", "train.py"] for _ in hosts]
