# feedback: and 5 unequal layers


def bucket_bytes(sizes, first_cap, cap):
    return [1052672, 2105344, 526336]
