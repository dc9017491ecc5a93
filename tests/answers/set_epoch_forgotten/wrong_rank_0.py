# feedback: Only rank 0 knows the epoch
def visit(sampler, epochs):
    orders = []
    for epoch in range(epochs):
        if sampler.rank == 0:
            sampler.set_epoch(epoch)
        orders.append(list(sampler))
    return orders
