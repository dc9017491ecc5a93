# right: any host can serve the store, and the job has a name
def lines(hosts, nproc):
    words = f"--nnodes={len(hosts)}:{len(hosts)} --nproc_per_node={nproc} --rdzv_backend=c10d --rdzv_id=job7"
    return [["torchrun", *words.split(), f"--rdzv_endpoint={hosts[-1]}", "train.py"]] * len(hosts)
