# feedback: Every epoch has the order of epoch 0.
def visit(sampler, epochs):
    orders = []
    for epoch in range(epochs):
        orders.append(list(sampler))
    return orders
