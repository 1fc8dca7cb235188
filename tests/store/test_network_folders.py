"""Data folders on network file systems: recognized by the table of mounts, used without WAL."""

import sqlite3
import warnings
from contextlib import closing
from pathlib import Path

import pytest

import artifactflow_nb as af
from artifactflow_nb.store import locks as network
from artifactflow_nb.store.locks import network_file_system

TABLE = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
/dev/vdb /home/ada/scratch xfs rw 0 0
//server/team /mnt/team\\040files cifs rw 0 0
ada@server: /mnt/remote fuse.sshfs rw 0 0
portal /mnt/portal fuse.portal rw 0 0
systemd-1 /data autofs rw 0 0
mgs:/data /data lustre rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "file_system"),
    [
        ("/var/data", None),
        ("/home/ada/.artifactflow", "nfs4"),
        ("/home/ada/scratch/new/folder", None),
        ("/homes/ada", None),
        ("/mnt/team files/data", "cifs"),
        ("/mnt/remote", "fuse.sshfs"),
        ("/mnt/portal/x", None),
        ("/data/x", "lustre"),
    ],
)
def test_file_system_of_a_folder_is_that_of_the_innermost_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, file_system: str | None
) -> None:
    """If two file systems are mounted on one folder, the later mount counts."""
    (tmp_path / "mounts").write_text(TABLE)
    monkeypatch.setattr(network, "MOUNTS", tmp_path / "mounts")
    assert network_file_system(Path(folder)) == file_system


def test_file_system_is_unknown_without_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Linux has the table of mounts."""
    monkeypatch.setattr(network, "MOUNTS", tmp_path / "none")
    assert network_file_system(tmp_path) is None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder that the table of mounts shows on NFS."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/x {tmp_path / 'shared'} nfs4 rw 0 0\n")
    monkeypatch.setattr(network, "MOUNTS", mounts)
    return tmp_path / "shared" / "data"


def workbench(folder: Path, *turns: str) -> af.Workbench:
    return af.Workbench(model=af.ScriptedModel(turns), data_dir=folder)


def journal_modes(folder: Path) -> list[str]:
    modes = []
    for name in ("store.db", "checkpoints.db"):
        with closing(sqlite3.connect(folder / name)) as db:
            modes.append(db.execute("PRAGMA journal_mode").fetchone()[0])
    return modes


@pytest.mark.filterwarnings(r"ignore:\s*data_dir is")
def test_store_on_a_network_has_no_write_ahead_log(tmp_path: Path, folder: Path) -> None:
    """Runs work; a store from a local disk is switched to another journal, and switched back on a local disk."""
    local = tmp_path / "local"
    with workbench(local, "One.") as wb:
        assert wb.ask("One?").wait(20).response == "One."
        assert (local / "store.db-wal").exists()
        assert journal_modes(local) == ["wal", "wal"]
    folder.parent.mkdir()
    local.rename(folder)
    with workbench(folder, "Two.") as wb:
        assert wb.ask("Two?").wait(20).response == "Two."
        assert len(wb.runs_df()) == 2
        assert journal_modes(folder) == ["delete", "delete"]
        assert not list(folder.glob("*-wal"))
    folder.rename(local)
    with workbench(local) as wb:
        assert len(wb.runs()) == 2
        assert journal_modes(local) == ["wal", "wal"]


def test_network_folder_is_reported_once(folder: Path) -> None:
    """The warning names the type of the file system and advises a local disk."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            workbench(folder).close()
    [warning] = [
        entry for entry in caught if issubclass(entry.category, UserWarning)
    ]  # some Pythons warn of `?1` in SQL
    words, lines = str(warning.message).split(), str(warning.message).split("\n")
    assert "on a network file system (nfs4)" in " ".join(words)
    assert "A local disk is faster" in " ".join(words)
    assert all(len(line) <= 79 or " " not in line for line in lines)  # a long path is not broken
