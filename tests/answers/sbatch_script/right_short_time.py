# right: the time limit as -t, beside another option


def sbatch_script(nodes, gpus):
    return f"""#!/bin/bash
#SBATCH -N {nodes} -t 10
#SBATCH --gpus-per-node={gpus}
srun torchrun --nnodes={nodes} --nproc-per-node={gpus} --rdzv-backend=c10d \\
    --rdzv-endpoint=$(hostname):29400 --rdzv-id=$SLURM_JOB_ID train.py
"""
