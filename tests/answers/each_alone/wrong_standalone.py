# feedback: --standalone is for a machine that meets no other.
def lines(hosts, nproc):
    return [["torchrun", "--standalone", f"--nnodes={len(hosts)}", f"--nproc-per-node={nproc}", "train.py"]] * len(
        hosts
    )
