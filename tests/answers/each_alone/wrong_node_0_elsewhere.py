# feedback: node 0 serves the store.
def lines(hosts, nproc):
    line = ["torchrun", f"--nnodes={len(hosts)}", f"--nproc-per-node={nproc}", f"--master-addr={hosts[-1]}"]
    return [[*line, f"--node-rank={node}", "train.py"] for node in range(len(hosts))]
