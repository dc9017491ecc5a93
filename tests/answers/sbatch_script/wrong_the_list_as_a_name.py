# feedback: the list of nodes is a short form, and no name


def sbatch_script(nodes, gpus):
    return f"""#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={gpus}
#SBATCH --time=01:00:00

srun torchrun --nnodes={nodes} --nproc-per-node={gpus} --rdzv-backend=c10d \\
    --rdzv-endpoint=$SLURM_JOB_NODELIST:29400 --rdzv-id=$SLURM_JOB_ID train.py
"""
