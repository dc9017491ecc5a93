# feedback: --nnodes=
def lines(hosts, nproc):
    line = ["torchrun", f"--nnodes={len(hosts) * 2}", f"--nproc-per-node={nproc}", "--rdzv-backend=c10d"]
    return [[*line, f"--rdzv-endpoint={hosts[0]}:29400", "train.py"] for _ in hosts]
