# feedback: Only allocated 2 nodes asked for 3


def sbatch_script(nodes, gpus):
    return f"""#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={gpus}
#SBATCH --time=01:00:00

srun --nodes={nodes + 1} torchrun --nnodes={nodes} --nproc-per-node={gpus} --rdzv-backend=c10d \\
    --rdzv-endpoint=$(hostname):29400 --rdzv-id=$SLURM_JOB_ID train.py
"""
