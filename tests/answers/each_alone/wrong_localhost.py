# feedback: localhost is gpu-
def lines(hosts, nproc):
    line = ["torchrun", f"--nnodes={len(hosts)}", f"--nproc-per-node={nproc}", "--rdzv-backend=c10d"]
    return [[*line, "--rdzv-endpoint=localhost:29411", "train.py"] for _ in hosts]
