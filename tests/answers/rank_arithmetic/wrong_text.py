# feedback: here, return numbers.
def ranks_of(nnodes, nproc_per_node, node_rank):
    return [
        {
            "RANK": str(node_rank * nproc_per_node + local),
            "LOCAL_RANK": local,
            "GROUP_RANK": node_rank,
            "WORLD_SIZE": nnodes * nproc_per_node,
        }
        for local in range(nproc_per_node)
    ]
