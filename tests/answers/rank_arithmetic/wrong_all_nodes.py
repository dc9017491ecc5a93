# feedback: on this node; you returned
def ranks_of(nnodes, nproc_per_node, node_rank):
    return [
        {
            "RANK": local,
            "LOCAL_RANK": local % nproc_per_node,
            "GROUP_RANK": local // nproc_per_node,
            "WORLD_SIZE": nnodes * nproc_per_node,
        }
        for local in range(nnodes * nproc_per_node)
    ]
