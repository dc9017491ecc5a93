# right: all ranks of all nodes listed, this node's cut out
def ranks_of(nnodes, nproc_per_node, node_rank):
    world = [(node, local) for node in range(nnodes) for local in range(nproc_per_node)]
    mine = []
    for rank, (node, local) in enumerate(world):
        if node == node_rank:
            mine.append(dict(RANK=rank, LOCAL_RANK=local, GROUP_RANK=node, WORLD_SIZE=len(world)))
    return mine
