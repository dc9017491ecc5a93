# right: batch by batch
def samples_left(order, step, batch_size, world, rank):
    left = []
    while (step + 1) * batch_size <= len(order):
        batch = order[step * batch_size : (step + 1) * batch_size]
        left += [sample for place, sample in enumerate(batch) if place % world == rank]
        step += 1
    return left
