# right: static, numbered
def lines(hosts, nproc):
    lines = []
    for node, _ in enumerate(hosts):
        shape = f"--nnodes {len(hosts)} --nproc-per-node {nproc} --node-rank {node}"
        lines.append(["torchrun", *shape.split(), f"--master-addr={hosts[0]}", "train.py"])
    return lines
