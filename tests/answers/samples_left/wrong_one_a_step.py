# feedback: In a step a rank takes more than one id.
def samples_left(order, step, batch_size, world, rank):
    return order[: len(order) // batch_size * batch_size][rank::world][step:]
