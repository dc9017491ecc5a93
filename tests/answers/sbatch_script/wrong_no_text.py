# feedback: you returned None


def sbatch_script(nodes, gpus):
    print(f"#SBATCH --nodes={nodes} --gpus-per-node={gpus}")
