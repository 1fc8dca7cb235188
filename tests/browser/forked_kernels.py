"""Fast kernels: each is forked from a process that has already imported the libraries.

::

    python forked_kernels.py serve SOCKET                      the process that is forked
    python forked_kernels.py start SOCKET CONNECTION_FILE      the command of the kernelspec

The command lives as long as its kernel, forwards interrupts, and each of the two ends with the other. So a front end
starts, interrupts, restarts and kills a forked kernel like any other.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from threading import Thread

LIBRARIES = (
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "artifactflow_nb.engine.engine",
    "artifactflow_nb.analysis.frames",
    "artifactflow_nb.notebook.workbench",
)


def write_kernelspec(folder: Path, python: str, address: Path) -> None:
    """Write the kernelspec `python3`, which starts kernels through the socket at `address`, below `folder`."""
    target = folder / "kernels" / "python3"
    target.mkdir(parents=True)
    command = [python, "-IS", __file__, "start", str(address), "{connection_file}"]
    spec = {"argv": command, "display_name": "Python 3 (ipykernel)", "language": "python"}
    (target / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")


def serve(address: str) -> None:
    """Import the libraries, then fork a kernel for every connection."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        del sys.path[0]  # the folder of this file, which kernels must not import from
        os.environ["JPY_PARENT_PID"] = str(os.getpid())  # ipykernel reads it on import: kernels end with this process
        for name in LIBRARIES:
            importlib.import_module(name)
        gc.freeze()  # else the collector would touch, and so copy, the shared pages
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # reap ended kernels
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _run_kernel(connection)
            connection.close()


def _run_kernel(connection: socket.socket) -> None:
    from ipykernel.kernelapp import launch_new_instance

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    _, streams, *_ = socket.recv_fds(connection, 1, 3)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    start = json.loads(connection.makefile().readline())
    os.chdir(start["folder"])
    os.environ.clear()
    os.environ.update(start["environment"])
    connection.sendall(b"%d\n" % os.getpid())

    def end_with_command() -> None:
        connection.recv(1)
        os.kill(os.getpid(), signal.SIGKILL)

    Thread(target=end_with_command, daemon=True).start()
    sys.argv = ["ipykernel_launcher", "-f", start["connection_file"]]
    launch_new_instance()
    sys.exit()


def start(address: str, connection_file: str) -> None:
    """Request a kernel with the streams, folder and environment of this process; return when it has ended."""
    request = {"connection_file": connection_file, "folder": str(Path.cwd()), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [b"\0"], [0, 1, 2])
        connection.sendall(json.dumps(request).encode() + b"\n")
        answers = connection.makefile()
        kernel = int(answers.readline())
        signal.signal(signal.SIGINT, lambda *_: os.killpg(kernel, signal.SIGINT))
        answers.read()


if __name__ == "__main__":
    {"serve": serve, "start": start}[sys.argv[1]](*sys.argv[2:])
