# feedback: One batch is left out.
def samples_left(order, step, batch_size, world, rank):
    return order[(step + 1) * batch_size : len(order) // batch_size * batch_size][rank::world]
