# feedback: No such file or directory: './train.sh'


def sbatch_script(nodes, gpus):
    return f"""#!/bin/bash
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node={gpus}
#SBATCH --time=01:00:00

srun ./train.sh
"""
