# right: static rendezvous, each node's number from SLURM


def sbatch_script(nodes, gpus):
    torchrun = (
        f"torchrun --nnodes={nodes} --nproc-per-node={gpus} --node-rank=$SLURM_NODEID --master-addr=$MASTER train.py"
    )
    return f"""#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --gpus={nodes * gpus}
#SBATCH --time=2-0
export MASTER=$SLURMD_NODENAME
srun --ntasks-per-node=1 bash -c '{torchrun}'
"""
