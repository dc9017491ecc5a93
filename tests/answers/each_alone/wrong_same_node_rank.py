# feedback: each number from 0 to 1 is needed once.
def lines(hosts, nproc):
    line = ["torchrun", f"--nnodes={len(hosts)}", f"--nproc-per-node={nproc}", "--node-rank=0"]
    return [[*line, f"--master-addr={hosts[0]}", "--master-port=29500", "train.py"] for _ in hosts]
