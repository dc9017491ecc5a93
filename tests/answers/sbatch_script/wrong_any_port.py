# feedback: port 0 means any that is free, and each agent would choose another one


def sbatch_script(nodes, gpus):
    return f"""#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={gpus}
#SBATCH --time=10
srun torchrun --nnodes={nodes} --nproc-per-node={gpus} --rdzv-backend=c10d \\
    --rdzv-endpoint=$(hostname):0 --rdzv-id=$SLURM_JOB_ID train.py
"""
