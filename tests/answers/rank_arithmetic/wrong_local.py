# feedback: That is the local rank. RANK goes on from node to node.
def ranks_of(nnodes, nproc_per_node, node_rank):
    return [
        {"RANK": local, "LOCAL_RANK": local, "GROUP_RANK": node_rank, "WORLD_SIZE": nnodes * nproc_per_node}
        for local in range(nproc_per_node)
    ]
