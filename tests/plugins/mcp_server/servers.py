"""The MCP server as a process for tests."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.forked_python import LIBRARIES as ENGINE_LIBRARIES
from support.forked_python import fast_python

import artifactflow_nb as af

FOLDER = Path(__file__).parent
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([str(FOLDER.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])}

NOTE = {"tool": "create_artifact", "params": {"id": "note", "title": "Herons", "content": "Herons wait."}}
ANSWER = "It is written [1].\n\n## Sources\n\n1. Herons — https://herons.example/\n"


LIBRARIES = ("artifactflow_nb.plugins.mcp_server.protocol", "artifactflow_nb.testing", *ENGINE_LIBRARIES)


def command(folder: Path, *options: str, replies: Any = (NOTE, ANSWER), python: str | None = None) -> list[str]:
    """The command of a server over a scripted model, by default in a Python that starts fast."""
    script = str(FOLDER / "scripted_server.py")
    return [
        *([python] if python else fast_python(LIBRARIES)),
        script,
        json.dumps(list(replies)),
        f"--data-dir={folder / 'data'}",
        *options,
    ]


@contextmanager
def over_http(arguments: list[str], environment: Mapping[str, str] = {}) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve at a free port; yield the first printed line and the process."""
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    variables = {**os.environ, **ENVIRONMENT, **environment}
    with subprocess.Popen(arguments, env=variables, text=True, **pipes) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.terminate()


def decided_by(folder: Path) -> list[str]:
    """Who has decided the requests of a store."""
    with af.Workbench(data_dir=folder / "data", interactive=False) as wb:
        return list(wb.approvals_df(columns="all")["decided_by"])
