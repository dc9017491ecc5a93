# right: one sort, the kind of end before the time
def first_failure(ranks):
    def kind(rank):
        error, code = rank["error"], rank["exit_code"]
        if error and ("by peer" in error or "Timed out" in error):
            return 3
        if code == -15:
            return 2
        return 1 if code == 0 else 0

    ends = [(kind(rank), rank["second"], number) for number, rank in enumerate(ranks)]
    return min(ends)[2]
