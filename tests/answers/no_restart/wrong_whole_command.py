# feedback: 'torchrun' is no option. Leave out torchrun itself and the script.
def options(ranks, failures):
    return ["torchrun", f"--nproc-per-node={ranks}", f"--max-restarts={failures}"]
