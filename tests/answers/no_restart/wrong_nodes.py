# feedback: --nnodes=2: this machine is one node.
def options(ranks, failures):
    return [f"--nnodes={ranks}", f"--max-restarts={failures}"]
