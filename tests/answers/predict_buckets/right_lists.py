# right: fill the last list while there is room


def bucket_bytes(sizes, first_cap, cap):
    buckets = [[]]
    for parameter in sizes[::-1]:
        if sum(buckets[-1]) >= (first_cap if len(buckets) == 1 else cap):
            buckets.append([])
        buckets[-1].append(parameter)
    return [sum(bucket) for bucket in buckets]
