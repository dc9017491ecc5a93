# feedback: expected a list of strings
def options(ranks, failures):
    return f"--nproc-per-node={ranks} --max-restarts={failures}"
