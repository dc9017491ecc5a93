# feedback: each agent looks for the others on its own node


def sbatch_script(nodes, gpus):
    return f"""#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={gpus}
srun torchrun --nnodes={nodes} --nproc-per-node={gpus} --rdzv-backend=c10d \\
    --rdzv-endpoint=localhost:29400 --rdzv-id=$SLURM_JOB_ID train.py
"""
