"""`ddp-course slurm`: the sbatch file that starts a script on several nodes of a SLURM cluster.

Options and their meanings: https://slurm.schedmd.com/sbatch.html and https://slurm.schedmd.com/srun.html.
"""

from __future__ import annotations

import shlex

from ddp_course.cluster.job import NAME_LENGTH, Job, matching, parser, write
from ddp_course.errors import LaunchError

# No more digits: SLURM counts seconds up to 2**31, and begins again.
_TIME = r"[0-9]{1,7}|[0-9]{1,5}:[0-9]{2}(:[0-9]{2})?|[0-9]{1,4}-[0-9]{1,4}(:[0-9]{2}(:[0-9]{2})?)?"

_FILE = """\
#!/bin/bash
# {title}. Submit it with sbatch, on whose command line the options below
# can be overruled and others added, such as --account.
{options}

set -eu

# The environment with torchrun, where the shell that calls sbatch has it not:
# source .venv/bin/activate

# This file runs on the first node of the job, where the agents meet. Two jobs can share a
# node, so the port comes from the job's number. Whoever reaches the port can run code as
# you: keep it inside the cluster.
endpoint=$(hostname):$((20000 + SLURM_JOB_ID % 10000))

# Each rank computes on its share of the cores.
export OMP_NUM_THREADS=$((SLURM_CPUS_PER_TASK / {nproc}))

# Where nodes have several networks, name the one to use (`ip -brief address` lists them):
# export NCCL_SOCKET_IFNAME=ib0 GLOO_SOCKET_IFNAME=ib0

# One agent on each node, each with a log of its own, in which --tee puts the local rank
# before every line. When an agent has ended, the others get 30 s to say why they end too.
# srun does not take --cpus-per-task from sbatch.
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --wait=30 --output=%x-%j-node%n.log \\
    torchrun \\
    --nnodes="$SLURM_JOB_NUM_NODES" \\
    --nproc-per-node={nproc} \\
    --rdzv-backend=c10d \\
    --rdzv-endpoint="$endpoint" \\
    --rdzv-id="$SLURM_JOB_ID" \\
    --tee=3 \\
    {script}
"""


def sbatch_file(job: Job, time: str = "01:00:00", partition: str = "") -> str:
    """The text of the sbatch file. Raises LaunchError where the job could not work or an option is malformed."""
    job.check()
    letters = f"letters, digits, dots, hyphens and underscores, {NAME_LENGTH} at most; log files carry it"
    matching("--job-name", job.name, rf"[\w.-]{{1,{NAME_LENGTH}}}", letters)
    matching("--time", time, _TIME, "minutes (90), hours:minutes:seconds (01:30:00) or days-hours (2-12)")
    if partition:
        matching("--partition", partition, r"[\w.,-]+", "a partition's name; sinfo lists them")
    options = {
        f"--job-name={job.name}": "",
        f"--nodes={job.nodes}": "",
        "--ntasks-per-node=1": "one torchrun agent a node, which starts the ranks",
        f"--gpus-per-node={job.gpus}": _gpus(job),
        f"--cpus-per-task={job.nproc_per_node}": "cores of a node; data loader workers need more",
        f"--time={time}": "when it is up, the job is ended" if time.strip("0:-") else "no limit but the partition's",
        "--signal=TERM@60": "a minute or two before: time to save a snapshot",
        f"--partition={partition}": "",
        "--output=%x-%j.log": "what this file says: job name, job number",
    }
    if not job.gpus:
        del options["--gpus-per-node=0"]
    if not partition:
        del options["--partition="]
    text = _FILE.format(
        title=job.title,
        options="\n".join(
            f"#SBATCH {option:<24} # {why}" if why else f"#SBATCH {option}" for option, why in options.items()
        ),
        nproc=job.nproc_per_node,
        script=shlex.join([job.script, *job.args]),
    )
    if "\r\n" in text:
        raise LaunchError(
            "sbatch takes no file with \\r\\n in it, which an argument of the script has. Have it read from a file."
        )
    return text


def _gpus(job: Job) -> str:
    if job.gpus == job.nproc_per_node:
        return "a GPU for each rank"
    return f"for {job.nproc_per_node} ranks" + "; NCCL needs one for each" * (job.gpus < job.nproc_per_node)


def main(argv: list[str]) -> int:
    """`ddp-course slurm`: writes the file. Exit code 0, or 2 for a wrong command line."""
    prog = "ddp-course slurm"
    options = parser(
        prog,
        "Write the sbatch file that starts SCRIPT on several nodes of a SLURM cluster.",
        "ddp-course slurm train_ddp.py --nodes 2 --nproc-per-node 4 --output job.sbatch -- --steps 200",
    )
    options.add_argument("--partition", metavar="NAME", default="", help="default: the cluster's own default")
    options.add_argument("--time", metavar="T", default="01:00:00", help="time limit, as sbatch takes it (default 1 h)")
    return write(prog, options, argv, lambda job, given: sbatch_file(job, given.time, given.partition))
