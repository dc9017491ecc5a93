# feedback: The first epoch is number 0
def visit(sampler, epochs):
    orders = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch + 1)
        orders.append(list(sampler))
    return orders
