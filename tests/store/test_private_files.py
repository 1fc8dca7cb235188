"""The files of a store are private to their owner; cassettes and exports follow the umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import OpenWorkbench

pytestmark = pytest.mark.skipif(os.name == "nt", reason="File modes have no effect on this system.")


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


def test_store_is_private_to_its_owner(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The folder has mode 0700; the store, the checkpoints, their logs and the locks have 0600 while they are open."""
    wb = workbench(["Hello."], data_dir=tmp_path / "data")
    wb.ask("Hello?").wait()
    engine = wb._thread.engine
    wb._thread.call(engine.database.write(lambda _db: engine.run_locks.acquire()))
    found_modes = modes(tmp_path / "data")
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert found_modes.pop("owners") == 0o700
    assert {"store.db", "store.db-wal", "store.db-shm", "checkpoints.db"} <= set(found_modes)
    assert any(name.endswith(".lock") for name in found_modes)
    assert set(found_modes.values()) == {0o600}


def test_existing_folder_keeps_its_mode(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Only the files of the store are private in the folder."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o755)
    workbench(["Hello."], data_dir=folder).ask("Hello?").wait()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE((folder / "store.db").stat().st_mode) == 0o600


def test_cassettes_and_sealed_files_follow_the_umask(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Cassettes and sealed files are meant to be shared."""
    wb = workbench(["Hello."], record=tmp_path / "runs.jsonl")
    wb.ask("Hello?").wait().seal(tmp_path / "hello.afrun")
    for name in ("runs.jsonl", "hello.afrun"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o644
