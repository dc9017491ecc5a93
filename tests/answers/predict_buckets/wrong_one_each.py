# feedback: That is one bucket for each parameter.


def bucket_bytes(sizes, first_cap, cap):
    return sizes[::-1]
