# feedback: Every rank takes all of them here.
def samples_left(order, step, batch_size, world, rank):
    return order[step * batch_size : len(order) // batch_size * batch_size]
