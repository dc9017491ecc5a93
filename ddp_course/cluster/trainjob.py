"""`ddp-course kubernetes`: the manifest that starts a script on several nodes of a Kubernetes cluster.

It is a TrainJob of Kubeflow Trainer: https://www.kubeflow.org/docs/components/trainer/. The course has no Kubernetes
cluster to run it on; its tests hold it against the API's published models and run its command with the environment
variables that Kubeflow gives it.
"""

from __future__ import annotations

import json
import re

from ddp_course.cluster.job import Job, matching, parser, write
from ddp_course.errors import LaunchError

_NAME = r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"

_FILE = """\
# {title}. Submit it: kubectl create -f FILE
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: {name}
spec:
  runtimeRef:
    name: torch-distributed    # comes with Kubeflow Trainer; a pod is a node
  trainer:
    image: {image}    # PyTorch, the script and what it imports
    # Kubeflow gives torchrun its other options by variables: PET_NNODES, PET_NPROC_PER_NODE,
    # PET_NODE_RANK, PET_MASTER_ADDR and PET_MASTER_PORT.
    command: [torchrun]
    # Kubernetes puts variables in for $(NAME), and makes one $ of $$.
    args: {args}
    numNodes: {nodes}
    numProcPerNode: {nproc}
"""

_GPUS = """\
    resourcesPerNode:
      limits:
        nvidia.com/gpu: {gpus}
"""


def trainjob(job: Job, image: str) -> str:
    """The manifest, YAML. Raises LaunchError where the job could not work or a name is malformed."""
    job.check()
    name, wanted = job.job_name, "a letter, then lower-case letters, digits and hyphens, 63 at most"
    if name:
        matching("--job-name", name, _NAME, wanted)
    else:
        name = re.sub(r"[^a-z0-9]+", "-", job.name.lower()).strip("-")
        if not re.fullmatch(_NAME, name):
            raise LaunchError(
                f"A job is called after its script; of {job.script} that leaves {name!r}, but Kubernetes wants "
                f"{wanted}. Give the job such a name with --job-name."
            )
    matching("--image", image, "[!-~]+", "the container image that holds the script and what it imports")
    text = _FILE.format(
        title=job.title,
        name=_yaml(name),  # null, true and on would be no strings
        image=_yaml(image),
        args=f"[{', '.join(_yaml(word.replace('$', '$$')) for word in (job.script, *job.args))}]",
        nodes=job.nodes,
        nproc=job.nproc_per_node,
    )
    return text + _GPUS.format(gpus=job.gpus) * bool(job.gpus)


def _yaml(text: str) -> str:
    """A string in YAML, all of it printable ASCII. JSON's escapes are YAML's, but for what takes two of them."""
    return '"' + "".join(json.dumps(c)[1:-1] if c <= "\uffff" else f"\\U{ord(c):08x}" for c in text) + '"'


def main(argv: list[str]) -> int:
    """`ddp-course kubernetes`: writes the manifest. Exit code 0, or 2 for a wrong command line."""
    prog = "ddp-course kubernetes"
    options = parser(
        prog,
        "Write the Kubeflow TrainJob that starts SCRIPT on several nodes of a Kubernetes cluster.",
        "ddp-course kubernetes train_ddp.py --nodes 2 --nproc-per-node 4 --image registry.example/train:1",
    )
    options.add_argument("--image", required=True, help="container image that holds the script and what it imports")
    return write(prog, options, argv, lambda job, given: trainjob(job, given.image))
