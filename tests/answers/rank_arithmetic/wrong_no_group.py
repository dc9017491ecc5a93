# feedback: has no GROUP_RANK
def ranks_of(nnodes, nproc_per_node, node_rank):
    return [
        {"RANK": node_rank * nproc_per_node + local, "LOCAL_RANK": local, "WORLD_SIZE": nnodes * nproc_per_node}
        for local in range(nproc_per_node)
    ]
