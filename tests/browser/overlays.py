"""Environments of their own for the front ends that the main one does not hold: the older kernel, Notebook 7, Voila.

Each lies on top of the environment that runs this file: it sees all its packages through a `.pth` file, has its data
and configuration of Jupyter linked, and holds only what differs, so that it takes about a second and 20 MB.
`python overlays.py` makes them all anew.
"""

import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

FOLDER = Path(sys.prefix) / "front-ends"
ENVIRONMENTS = {
    "ipykernel6": "ipykernel==6.31.*",  # the last series before subshells: it hears a page only between two cells
    "notebook7": "notebook==7.*",
    "voila": "voila==0.5.*",
}
"""What each holds beside what it sees below."""


def overlay_python(name: str) -> Path:
    """The interpreter of an environment, which need not be there yet."""
    return FOLDER / name / "bin" / "python"


def make(name: str) -> None:
    """Make an environment, from nothing."""
    home = FOLDER / name
    venv.EnvBuilder(with_pip=False, clear=True, symlinks=True).create(home)
    below = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    (_packages(home) / "below.pth").write_text(below, encoding="utf-8")
    install = [sys.executable, "-m", "pip", "--python", str(overlay_python(name)), "install", "--quiet"]
    subprocess.run([*install, ENVIRONMENTS[name]], check=True)
    for part in ("share/jupyter", "etc/jupyter"):
        _link(Path(sys.prefix) / part, home / part)


def _packages(home: Path) -> Path:
    return home / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)


def _link(source: Path, target: Path) -> None:
    """Have every file of `source` in `target` too, where the latter has not its own.

    Hard links: what lies behind a symbolic one is refused by Voila, and overlooked by the settings of Notebook 7.
    """
    for file in source.rglob("*"):
        own = target / file.relative_to(source)
        if file.is_file() and not own.exists():
            own.parent.mkdir(parents=True, exist_ok=True)
            own.hardlink_to(file)


def main() -> None:
    """Make all environments anew, and say how long each took."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name, holds in ENVIRONMENTS.items():
        started = time.perf_counter()
        make(name)
        sys.stdout.write(f"{name} ({holds}) made in {time.perf_counter() - started:.1f} s\n")


if __name__ == "__main__":
    main()
