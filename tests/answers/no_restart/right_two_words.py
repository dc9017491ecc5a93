# right: the two options
def options(ranks, failures):
    return [f"--nproc-per-node={ranks}", f"--max-restarts={failures}"]
