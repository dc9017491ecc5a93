# feedback: Every epoch has the order of the one before: too late.
def visit(sampler, epochs):
    orders = []
    for epoch in range(epochs):
        orders.append(list(sampler))
        sampler.set_epoch(epoch)
    return orders
