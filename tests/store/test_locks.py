"""File locks have one holder at a time over all processes, and none after its release or death."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from artifactflow_nb.store.locks import is_locked, lock, unlock

HOLDER = "import sys; from pathlib import Path; from artifactflow_nb.store.locks import lock\n"
HOLDER += "file = lock(Path(sys.argv[1])); print(file is not None, flush=True); sys.stdin.read()"


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    """A second attempt fails until the release, which removes the file."""
    path = tmp_path / "x.lock"
    file = lock(path)
    assert file is not None
    assert lock(path) is None
    assert is_locked(path)
    unlock(path, file)
    assert not path.exists()
    again = lock(path)
    assert again is not None
    unlock(path, again)


def test_killed_process_holds_no_lock(tmp_path: Path) -> None:
    """The lock of a killed process is free, although the file is still there."""
    path = tmp_path / "x.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert lock(path) is None
        holder.kill()
    assert path.exists()
    assert not is_locked(path)
    file = lock(path)
    assert file is not None
    unlock(path, file)


def test_removed_lock_file_cannot_be_locked(tmp_path: Path) -> None:
    """Threads that lock and unlock at the same time never hold the lock together, although the file is removed."""
    path, inside, most = tmp_path / "x.lock", [], []

    def work(number: int) -> None:
        for _ in range(1000):
            if (file := lock(path)) is not None:
                inside.append(number)
                time.sleep(0.0001)
                most.append(len(inside))
                inside.remove(number)
                unlock(path, file)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert set(most) == {1}
    assert not path.exists()


def test_lock_in_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    """A missing folder is not reported as a lock of another process."""
    for use in (lock, is_locked):
        with pytest.raises(FileNotFoundError):
            use(tmp_path / "none" / "x.lock")
