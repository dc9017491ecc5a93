# feedback: Those are stretches of each batch; ranks take turns, id by id.
def samples_left(order, step, batch_size, world, rank):
    mine, share = [], batch_size // world
    for start in range(step * batch_size, len(order) - batch_size + 1, batch_size):
        mine += order[start + rank * share : start + (rank + 1) * share]
    return mine
