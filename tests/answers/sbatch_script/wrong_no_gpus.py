# feedback: the script asks for 0 GPUs on each node; its ranks want 4


def sbatch_script(nodes, gpus):
    return f"""#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --time=01:00:00

srun torchrun --nnodes={nodes} --nproc-per-node={gpus} --rdzv-backend=c10d \\
    --rdzv-endpoint=$(hostname):29400 --rdzv-id=$SLURM_JOB_ID train.py
"""
