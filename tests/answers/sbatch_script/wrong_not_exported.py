# feedback: the endpoint is ':29400': a variable is empty there


def sbatch_script(nodes, gpus):
    return f"""#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={gpus}
#SBATCH --time=10
head=$(hostname)
srun bash -c 'torchrun --nnodes={nodes} --nproc-per-node={gpus} --rdzv-backend=c10d \\
    --rdzv-endpoint=$head:29400 --rdzv-id=$SLURM_JOB_ID train.py'
"""
