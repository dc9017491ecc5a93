# feedback: When it runs, another run may have that port.
import socket


def command(script):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return ["torchrun", "--nproc-per-node=2", f"--master-port={port}", script]
