# feedback: A rank has not taken step · batch_size ids: all ranks together have.
def samples_left(order, step, batch_size, world, rank):
    return order[: len(order) // batch_size * batch_size][rank::world][step * batch_size :]
