"""Environments with packages that the main environment lacks: front ends, pyarrow, the older kernel and MCP SDK.

Each extends the environment that runs this file: it imports its packages through a `.pth` file, links its Jupyter data
and configuration, and contains only the packages that differ, so that it takes about a second and 20 MB.
`python overlays.py` creates all of them again.
"""

import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

FOLDER = Path(sys.prefix) / "overlays"
ENVIRONMENTS = {
    "ipykernel6": ["ipykernel==6.31.*"],  # the last series before subshells: it receives messages between two cells
    "notebook7": ["notebook==7.*"],
    "voila": ["voila==0.5.*"],
    "marimo": ["marimo==0.25.*"],
    "arrow": ["pyarrow"],
    "cluster": [
        "pyarrow",
        "distributed>=2026.8",
        "s3fs>=2026.9",
        "moto[s3]>=5.2",
        "flask",
        "flask-cors",
    ],  # studies: a library, workers
    "inspect": ["inspect_ai>=0.3.200", "pyarrow"],
    "mcp1": ["mcp==1.24.*", "langchain-mcp-adapters>=0.3"],  # the oldest supported version, with another package
    "mcp_clients": ["fastmcp>=4.2", "jupyter-server-mcp>=0.4"],  # a client, and the server of Jupyter
    "jupyter_ai": ["jupyter-ai==3.2.*"],  # needs version 1 of the MCP SDK
}
"""The additional packages of each environment."""


def overlay_python(name: str) -> Path:
    """The interpreter of an environment, which may not exist yet."""
    return FOLDER / name / "bin" / "python"


def main_python() -> Path:
    """The interpreter of the main environment, even in an environment that extends it."""
    prefix = Path(sys.prefix)
    return (prefix.parents[1] if prefix.parent.name == FOLDER.name else prefix) / "bin" / Path(sys.executable).name


def make(name: str) -> None:
    """Create an environment."""
    home = FOLDER / name
    venv.EnvBuilder(with_pip=False, clear=True, symlinks=True).create(home)
    below = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (_packages(home) / "below.pth").write_text(below, encoding="utf-8")
    install = [sys.executable, "-m", "pip", "--python", str(overlay_python(name)), "install", "--quiet"]
    subprocess.run([*install, *ENVIRONMENTS[name]], check=True)
    for part in ("share/jupyter", "etc/jupyter"):
        _link(Path(sys.prefix) / part, home / part)


def _packages(home: Path) -> Path:
    return home / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)


def _link(source: Path, target: Path) -> None:
    """Link every file of `source` that `target` lacks into `target`.

    Hard links, because Voila refuses files behind symbolic links, and Notebook 7 overlooks settings behind them.
    """
    for file in source.rglob("*"):
        own = target / file.relative_to(source)
        if file.is_file() and not own.exists():
            own.parent.mkdir(parents=True, exist_ok=True)
            own.hardlink_to(file)


def main() -> None:
    """Create all environments again and print the time for each."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, packages in ENVIRONMENTS.items():
        started = time.perf_counter()
        make(name)
        sys.stdout.write(f"{name} ({', '.join(packages)}) created in {time.perf_counter() - started:.1f} s\n")


if __name__ == "__main__":
    main()
