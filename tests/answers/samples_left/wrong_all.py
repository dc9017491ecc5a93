# feedback: Those are all ids of the epoch: the first steps come a second time.
def samples_left(order, step, batch_size, world, rank):
    return order[: len(order) // batch_size * batch_size][rank::world]
