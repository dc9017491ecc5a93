# feedback: all must know the same one.
def lines(hosts, nproc):
    line = ["torchrun", f"--nnodes={len(hosts)}", f"--nproc-per-node={nproc}", "--rdzv-backend=c10d"]
    return [[*line, f"--rdzv-endpoint={hosts[0]}:0", "train.py"] for _ in hosts]
