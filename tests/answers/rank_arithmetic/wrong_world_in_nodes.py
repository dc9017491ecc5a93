# feedback: Those are the nodes. WORLD_SIZE counts ranks.
def ranks_of(nnodes, nproc_per_node, node_rank):
    return [
        {"RANK": node_rank * nproc_per_node + local, "LOCAL_RANK": local, "GROUP_RANK": node_rank, "WORLD_SIZE": nnodes}
        for local in range(nproc_per_node)
    ]
