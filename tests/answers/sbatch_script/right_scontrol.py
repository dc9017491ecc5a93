# right: the first name of the list, SLURM's variables, sbatch's short options


def sbatch_script(nodes, gpus):
    lines = [
        "#!/bin/bash",
        f"#SBATCH -N {nodes} --ntasks-per-node 1",
        f"#SBATCH --gres=gpu:{gpus}  # on each node",
        "#SBATCH --time 60",
        "set -e",
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        "export OMP_NUM_THREADS=4",
        "srun python -m torch.distributed.run \\",
        f"    --nnodes $SLURM_JOB_NUM_NODES --nproc_per_node {gpus} \\",
        "    --rdzv_backend c10d --rdzv_endpoint $head --rdzv_id $SLURM_JOB_ID train.py",
    ]
    return "\n".join(lines) + "\n"
