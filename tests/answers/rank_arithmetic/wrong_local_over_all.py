# feedback: LOCAL_RANK starts at 0 on each node.
def ranks_of(nnodes, nproc_per_node, node_rank):
    return [
        {
            "RANK": node_rank * nproc_per_node + local,
            "LOCAL_RANK": node_rank * nproc_per_node + local,
            "GROUP_RANK": node_rank,
            "WORLD_SIZE": nnodes * nproc_per_node,
        }
        for local in range(nproc_per_node)
    ]
