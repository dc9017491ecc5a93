# feedback: '--nnodes 2' is one word. Option and value are two words of the list
def lines(hosts, nproc):
    line = ["torchrun", f"--nnodes {len(hosts)}", f"--nproc-per-node={nproc}", "--rdzv-backend=c10d"]
    return [[*line, f"--rdzv-endpoint={hosts[0]}:29400", "train.py"] for _ in hosts]
