# feedback: yours: None


def bucket_bytes(sizes, first_cap, cap):
    pass
