# feedback: the script asks for 1 (no --nodes) nodes


def sbatch_script(nodes, gpus):
    return f"""#!/bin/bash
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={gpus}
#SBATCH --time=01:00:00

srun torchrun --nnodes={nodes} --nproc-per-node={gpus} --rdzv-backend=c10d \\
    --rdzv-endpoint=$(hostname):29400 --rdzv-id=$SLURM_JOB_ID train.py
"""
