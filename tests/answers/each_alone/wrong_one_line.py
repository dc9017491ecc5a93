# feedback: you returned 1 line.
def lines(hosts, nproc):
    line = ["torchrun", f"--nnodes={len(hosts)}", f"--nproc-per-node={nproc}", "--rdzv-backend=c10d"]
    return [[*line, f"--rdzv-endpoint={hosts[0]}:29400", "train.py"]]
