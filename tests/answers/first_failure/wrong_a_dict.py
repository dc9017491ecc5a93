# feedback: it began with rank
def first_failure(ranks):
    return next(rank for rank in ranks if rank["exit_code"] not in (0, -15))
