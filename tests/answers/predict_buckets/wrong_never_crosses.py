# feedback: Your buckets close before they reach their cap.


def bucket_bytes(sizes, first_cap, cap):
    buckets, limit = [0], first_cap
    for parameter in reversed(sizes):
        if buckets[-1] and buckets[-1] + parameter > limit:
            buckets.append(0)
            limit = cap
        buckets[-1] += parameter
    return buckets
