# feedback: each agent has another --rdzv-id


def sbatch_script(nodes, gpus):
    return f"""#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={gpus}
#SBATCH --time=01:00:00

endpoint=$(hostname)
export endpoint
srun bash -c 'torchrun --nnodes={nodes} --nproc-per-node={gpus} --rdzv-backend=c10d \\
    --rdzv-endpoint=$endpoint:29400 --rdzv-id=$SLURM_PROCID train.py'
"""
