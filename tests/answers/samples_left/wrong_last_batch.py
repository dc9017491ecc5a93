# feedback: The last batch is not full, and is dropped.
def samples_left(order, step, batch_size, world, rank):
    return order[step * batch_size :][rank::world]
