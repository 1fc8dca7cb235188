"""The extension of JupyterLab is complete, part of every wheel, and enabled by the installation."""

import hashlib
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

from hatchling.builders.wheel import WheelBuilder

import artifactflow_nb as af

FOLDER = Path(af.__file__).parent / "widgets" / "labextension"
PROJECT = Path(__file__).parents[2]
FILES = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in FOLDER.rglob("*") if path.is_file()}


def test_browsers_load_a_changed_entry() -> None:
    """The name of the loaded file contains the start of its hash, so no cache has an older file under this name."""
    entry, research = sorted(name for name in FILES if name.endswith(".js"))
    for name, kind in ((entry, "remoteEntry"), (research, "research")):
        assert name == f"static/{kind}.{hashlib.sha256(FILES[name]).hexdigest()[:8]}.js"
    assert f'"{Path(research).name}"'.encode() in FILES[entry]
    description = json.loads(FILES["package.json"])
    assert description["jupyterlab"]["_build"]["load"] == entry
    assert description["version"] == version("artifactflow-nb")


def test_wheel_contains_the_extension(tmp_path: Path) -> None:
    """The wheel installs the files where Jupyter looks for extensions."""
    (wheel,) = WheelBuilder(str(PROJECT)).build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".data/data/share/" in name]
        place = r"artifactflow_nb-[\d.]+\.data/data/share/jupyter/labextensions/artifactflow-nb/"
        assert {re.sub(place, "", name): archive.read(name) for name in names} == FILES


def test_installation_enables_the_extension() -> None:
    """`jupyter labextension list` finds the installed files, which an editable installation has, too."""
    command = [sys.executable, "-m", "jupyter", "labextension", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    listed = re.sub(r"\x1b\[\d*m", "", done.stdout + done.stderr)
    assert f"artifactflow-nb v{version('artifactflow-nb')} enabled OK (python, artifactflow-nb)" in listed
    installed = Path(sys.prefix) / "share/jupyter/labextensions/artifactflow-nb"
    assert {name: (installed / name).read_bytes() for name in FILES} == FILES
