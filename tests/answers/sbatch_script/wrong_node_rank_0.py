# feedback: needs a --node-rank of its own


def sbatch_script(nodes, gpus):
    return f"""#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={gpus}
#SBATCH --time=01:00:00

srun torchrun --nnodes={nodes} --nproc-per-node={gpus} --node-rank=0 --master-addr=$(hostname) train.py
"""
