# right: what is left of the list, then every world-th of it
def samples_left(order, step, batch_size, world, rank):
    end = len(order) // batch_size * batch_size
    return order[step * batch_size : end][rank::world]
