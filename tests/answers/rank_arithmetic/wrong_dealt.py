# feedback: You deal the ranks out in turn, like cards.
def ranks_of(nnodes, nproc_per_node, node_rank):
    return [
        {
            "RANK": local * nnodes + node_rank,
            "LOCAL_RANK": local,
            "GROUP_RANK": node_rank,
            "WORLD_SIZE": nnodes * nproc_per_node,
        }
        for local in range(nproc_per_node)
    ]
