# feedback: Each rank shuffles in its own way
def visit(sampler, epochs):
    orders = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch + sampler.rank)
        orders.append(list(sampler))
    return orders
