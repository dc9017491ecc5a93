# feedback: Those are whole stretches of the list; ranks take turns, id by id.
def samples_left(order, step, batch_size, world, rank):
    left = order[step * batch_size :]
    share = len(left) // world
    return left[rank * share : (rank + 1) * share]
