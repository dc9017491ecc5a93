# right: name and value apart, with options that change nothing here
def options(ranks, failures):
    return ["--standalone", "--nnodes=1", "--nproc_per_node", str(ranks), "--max_restarts", str(failures)]
