"""Named pipes, devices and folders in place of files are refused at once; nothing waits for them."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import artifactflow_nb as af
from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.core.local_files import open_regular, read_text
from artifactflow_nb.engine.flow_registry import load_graph_config
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import ArtifactFlowError, CassetteError, UsageError
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.named_texts import load_shared_skills
from artifactflow_nb.plugins.projects.project import ProjectTemplate
from artifactflow_nb.recording.cassette import Cassette

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders.")

KINDS = {"pipe": "a named pipe", "device": "a device", "folder": "a folder"}


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """End a test that waits for a pipe."""

    def ring(*_: object) -> None:
        raise TimeoutError("It waited.")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=list(KINDS))
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A path that leads to no regular file, and its kind in errors."""
    path = tmp_path / "odd"
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    return path, KINDS[request.param]


def open_workbench(tmp_path: Path, **options: Any) -> None:
    with af.Workbench(model=ScriptedModel(["Hi."]), data_dir=tmp_path / "data", interactive=False, **options):
        pass


READERS: dict[str, tuple[type[ArtifactFlowError], Callable[[Path, Path], object]]] = {
    "sealed": (CassetteError, lambda path, _: af.open_run(path)),
    "cassette": (CassetteError, lambda path, _: Cassette.open(path)),
    "accept": (CassetteError, lambda path, _: af.accept_cassette(path)),
    "replay": (CassetteError, lambda path, tmp: open_workbench(tmp, replay=path)),
    "record": (CassetteError, lambda path, tmp: open_workbench(tmp, record=path)),
    "auto": (CassetteError, lambda path, tmp: open_workbench(tmp, record=path, mode="auto")),
    "graph": (UsageError, lambda path, _: load_graph_config(path)),
    "graph_config": (UsageError, lambda path, tmp: open_workbench(tmp, graph_config=str(path))),
    "mcp": (UsageError, lambda path, tmp: open_workbench(tmp, mcp=str(path))),
}


@pytest.mark.parametrize("reader", list(READERS))
def test_special_files_are_refused(odd: tuple[Path, str], tmp_path: Path, reader: str) -> None:
    """The error names the kind of the file, which is not read."""
    path, kind = odd
    error, read = READERS[reader]
    with pytest.raises(error, match=f"it is {kind}, not a file"):
        read(path, tmp_path)


def test_special_files_with_fixed_names_are_refused(odd: tuple[Path, str], tmp_path: Path) -> None:
    """Prompts, skills, templates, the settings file of the folder and the store are checked."""
    path, kind = odd
    refused = rf"it is {kind}, not a file"
    for folder, name in (
        ("prompts", "lead_agent.md"),
        ("skills", "a.md"),
        ("templates", "t.yaml"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).symlink_to(path)
    with pytest.raises(UsageError, match=f"The prompt .*lead_agent.md .*{refused}"):
        PromptLibrary(tmp_path / "prompts").check("lead_agent")
    with pytest.raises(UsageError, match=f"The skill .*a.md .*{refused}"):
        load_shared_skills(tmp_path / "skills")
    with pytest.raises(UsageError, match=f"The template .*t.yaml .*{refused}"):
        ProjectTemplate.load(tmp_path / "templates" / "t.yaml")
    (tmp_path / "artifactflow.toml").symlink_to(path)
    with pytest.raises(UsageError, match=f"artifactflow.toml cannot be read: {refused}"):
        Settings.load()
    (tmp_path / "artifactflow.toml").unlink()
    (tmp_path / "data").mkdir()
    path.rename(tmp_path / "data" / "store.db")
    is_link = (tmp_path / "data" / "store.db").is_symlink()
    problem = "store.db is a link that leads out of its folder, to /dev/zero"
    with pytest.raises(ArtifactFlowError, match=problem if is_link else f"store.db cannot be opened: .*{refused}"):
        open_workbench(tmp_path)


def test_sealing_replaces_regular_files_only(odd: tuple[Path, str], tmp_path: Path) -> None:
    """A pipe, a device or a folder is not replaced, even with `replace=True`."""
    path, kind = odd
    before = os.lstat(path)
    with af.Workbench(model=ScriptedModel(["Hi."]), data_dir=tmp_path / "data", interactive=False) as wb:
        run = wb.ask("Hi?").wait()
        with pytest.raises(UsageError, match=f"it is {kind}, not a file|Is a directory"):
            run.seal(path, replace=True)
    assert os.lstat(path).st_ino == before.st_ino


def test_special_files_among_sources(tmp_path: Path) -> None:
    """A pipe alone is an error; among other files it is skipped."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("# Cats\n\nCats purr.")
    os.mkfifo(folder / "b.md")
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data", interactive=False) as wb:
        added = wb.sources.add(folder)
        assert (added.added, len(added.skipped)) == (1, 1)
        with pytest.raises(UsageError, match=r"b\.md cannot be read \(it is a named pipe, not a file\)"):
            wb.sources.add(folder / "b.md")


def test_file_that_becomes_a_pipe_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind of the opened file is checked, because the path may change after a check."""
    path = tmp_path / "x"
    path.write_text("regular")
    looked = path.stat()
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(Path, "stat", lambda _path: looked)
    with pytest.raises(OSError, match="it is a named pipe"):
        open_regular(path)


def test_errors_show_no_content_of_a_file(tmp_path: Path) -> None:
    """A file that is not UTF-8 may contain a key. Line ends are normalised."""
    path = tmp_path / "x.toml"
    path.write_bytes(b"api_key = 'sk-secret-123456'\xff")
    with pytest.raises(
        UsageError, match=r"The file .*x\.toml cannot be read: it is not text in UTF-8 \(byte 28\)"
    ) as error:
        read_text(path, "The file")
    assert "secret" not in str(error.value)
    path.write_bytes(b"a\r\nb\rc\n")
    assert read_text(path, "The file") == "a\nb\nc\n"


PATHS = ["a\0b", "a\ud800b", "loop", "x" * 300]


@pytest.mark.parametrize("name", PATHS)
def test_invalid_paths_are_usage_errors(tmp_path: Path, name: str) -> None:
    """Null characters, half surrogate pairs, circular links and too long names are refused."""
    (tmp_path / "loop").symlink_to("loop")
    path = tmp_path / name
    for error, read in READERS.values():
        with pytest.raises((error, UsageError)):  # no path, or no readable file
            read(path, tmp_path)
    with pytest.raises(UsageError, match="cannot be used|it must be the path of a folder"):
        open_workbench(path / "below")
    with pytest.raises(UsageError, match="is not a folder|cannot be used"):
        open_workbench(tmp_path, prompts=path)
    with af.Workbench(model=ScriptedModel(["Hi."]), data_dir=tmp_path / "data", interactive=False) as wb:
        run = wb.ask("Hi?").wait()
        with pytest.raises(UsageError):
            wb.sources.add(path)
        with pytest.raises((CassetteError, UsageError)):
            wb.store.import_run(path)
        for write in (run.seal, run.to_notebook):
            with pytest.raises(UsageError):
                write(path)
