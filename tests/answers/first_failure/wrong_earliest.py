# feedback: had finished, and another rank failed by itself.
def first_failure(ranks):
    return min(range(len(ranks)), key=lambda r: ranks[r]["second"])
