"""A Python that starts fast: each of its processes is forked from one that has already imported the libraries.

::

    python forked_python.py serve SOCKET LIBRARY...       the process that is forked
    python -IS forked_python.py run SOCKET ARGUMENT...    like `python ARGUMENT...` with a script, -c or -m

The second command has the streams, folder, environment and exit status of the program and forwards signals. Killing it
kills the program a moment later. Do not use it to test what a program imports, or its life after a kill from outside.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import time
import types
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

LIBRARIES = (
    "artifactflow_nb.engine.engine",
    "artifactflow_nb.analysis.frames.api",
    "artifactflow_nb.notebook.workbench",
    "artifactflow_nb.plugins.projects.spec",
)
KERNEL_LIBRARIES = ("ipykernel.kernelapp", "ipykernel.ipkernel", *LIBRARIES)
FORWARDED = (signal.SIGINT, signal.SIGTERM)
START_TIMEOUT_S = 60


@functools.cache
def fast_python(libraries: Sequence[str] = KERNEL_LIBRARIES, python: str = sys.executable) -> tuple[str, ...]:
    """The beginning of a command, in place of `sys.executable`; the process that is forked ends with this one."""
    import subprocess
    import tempfile

    folder = tempfile.TemporaryDirectory(prefix="python-", ignore_cleanup_errors=True)
    address = f"{folder.name}/socket"
    server = subprocess.Popen([python, __file__, "serve", address, *libraries], stdin=subprocess.PIPE)

    def stop() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(stop)
    return command(python, address)


def command(python: str, address: str) -> tuple[str, ...]:
    """The beginning of a command that runs a program in the process at `address`."""
    return python, "-IS", __file__, "run", address


def write_kernelspec(folder: Path, fast: Sequence[str]) -> None:
    """Write the kernelspec `python3`, whose kernels are started by a command of `fast_python`, below `folder`."""
    target = folder / "kernels" / "python3"
    target.mkdir(parents=True)
    argv = [*fast, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Python 3 (ipykernel)", "language": "python"}
    (target / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")


def serve(address: str, *libraries: str) -> None:
    """Import the libraries, then fork a process for every connection, until the standard input ends."""
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(address)
        listener.listen()
        del sys.path[0]  # the folder of this file, which programs must not import from
        os.environ["JPY_PARENT_PID"] = str(os.getpid())  # ipykernel reads it on import: kernels end with this process
        for name in libraries:
            importlib.import_module(name)
        gc.freeze()  # else the collector would touch, and so copy, the shared pages
        program = _fork_for_each(listener, selector)
    if program:
        _run_program(*program)


def _fork_for_each(listener: socket.socket, selector: selectors.BaseSelector) -> tuple[Any, list[int]] | None:
    """In a forked process, return the request and its streams; in the first process, None once its input ends."""
    ended, wake = socket.socketpair()
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno())
    for source in (listener, ended, sys.stdin.buffer):
        selector.register(source, selectors.EVENT_READ)
    running: dict[int, socket.socket] = {}
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin.buffer:
                for process in running:
                    os.kill(process, signal.SIGKILL)
                return None
            if key.fileobj is ended:
                ended.recv(100)
                _report_ended(running, selector)
            elif key.fileobj is listener:
                connection, _ = listener.accept()
                try:
                    _, streams, *_ = socket.recv_fds(connection, 1, 3)
                    request = json.loads(connection.makefile().readline())
                except (OSError, ValueError):  # the command was killed before it had sent its request
                    connection.close()
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # Python 3.12 warns because NumPy has threads
                    process = os.fork()
                if not process:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for opened in (connection, ended, wake, *running.values()):
                        opened.close()
                    return request, streams
                for stream in streams:
                    os.close(stream)
                running[process] = connection
                selector.register(connection, selectors.EVENT_READ, process)
                with suppress(OSError):  # the command was killed; the next round ends the process
                    connection.sendall(b"%d\n" % process)
            elif key.data in running:  # the command was killed
                os.kill(key.data, signal.SIGKILL)
                selector.unregister(key.fileobj)


def _report_ended(running: dict[int, socket.socket], selector: selectors.BaseSelector) -> None:
    """Send their exit status to the commands of ended processes."""
    while running:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        with running.pop(process) as connection, suppress(KeyError, OSError):  # without its command
            selector.unregister(connection)
            connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _run_program(request: dict[str, Any], streams: list[int]) -> None:
    """Be the requested program."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    first, *arguments = request["arguments"]
    sys.path[:0] = filter(None, request["environment"].get("PYTHONPATH", "").split(os.pathsep))
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    sys.argv, source = [first, *arguments], Path(first)
    if first == "-m":
        import runpy

        sys.argv, sys.path[:0] = arguments, [""]
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    if first == "-c":
        sys.argv, sys.path[:0], text = ["-c", *arguments[1:]], [""], arguments[0]
    else:
        sys.path[:0], text = [str(source.parent.absolute())], source.read_text(encoding="utf-8")
        main.__file__ = first
    exec(compile(text, "<string>" if first == "-c" else first, "exec"), main.__dict__)  # noqa: S102 - a program of the tests


def run(address: str, *arguments: str) -> None:
    """Request a process with the streams, folder and environment of this one, and end as it does."""
    request = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as connection:
        deadline = time.monotonic() + START_TIMEOUT_S
        while connection.connect_ex(address) and time.monotonic() < deadline:  # it has just been started
            time.sleep(0.005)
        socket.send_fds(connection, [b"\0"], [0, 1, 2])
        connection.sendall(json.dumps(request).encode() + b"\n")
        answers = connection.makefile()
        process = int(answers.readline())
        for number in FORWARDED:
            signal.signal(number, lambda number, _: os.killpg(process, number))
        status = int(answers.readline() or -signal.SIGKILL)
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    {"serve": serve, "run": run}[sys.argv[1]](*sys.argv[2:])
