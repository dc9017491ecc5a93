# feedback: they never meet.
def lines(hosts, nproc):
    line = ["torchrun", f"--nnodes={len(hosts)}", f"--nproc-per-node={nproc}", "--rdzv-backend=c10d"]
    return [[*line, f"--rdzv-endpoint={host}:29400", "train.py"] for host in hosts]
