# right: this rank's list, then what is left of it
def samples_left(order, step, batch_size, world, rank):
    each = batch_size // world
    steps = len(order) // batch_size
    return order[rank::world][step * each : steps * each]
