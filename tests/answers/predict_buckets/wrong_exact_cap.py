# feedback: A bucket that holds its cap exactly is full.


def bucket_bytes(sizes, first_cap, cap):
    buckets, size, limit = [], 0, first_cap
    for parameter in reversed(sizes):
        size += parameter
        if size > limit:
            buckets.append(size)
            size, limit = 0, cap
    return buckets + ([size] if size else [])
