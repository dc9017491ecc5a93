# right: short options, some of them in one word with their value


def sbatch_script(nodes, gpus):
    return f"""#!/bin/bash
#SBATCH -N{nodes} -t10 -c 8
#SBATCH -n {nodes} -G {nodes * gpus} -J training
srun torchrun --nnodes={nodes} --nproc-per-node={gpus} --rdzv-backend=c10d \\
    --rdzv-endpoint=$(hostname):29400 --rdzv-id=$SLURM_JOB_ID train.py
"""
