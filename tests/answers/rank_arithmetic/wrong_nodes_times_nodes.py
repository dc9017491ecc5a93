# feedback: How many ranks does each node before this one have?
def ranks_of(nnodes, nproc_per_node, node_rank):
    return [
        {
            "RANK": node_rank * nnodes + local,
            "LOCAL_RANK": local,
            "GROUP_RANK": node_rank,
            "WORLD_SIZE": nnodes * nproc_per_node,
        }
        for local in range(nproc_per_node)
    ]
