# feedback: without --rdzv-backend=c10d torchrun takes the static one, which wants a --node-rank on each node.
def lines(hosts, nproc):
    line = ["torchrun", f"--nnodes={len(hosts)}", f"--nproc-per-node={nproc}"]
    return [[*line, f"--rdzv-endpoint={hosts[0]}:29400", "train.py"] for _ in hosts]
