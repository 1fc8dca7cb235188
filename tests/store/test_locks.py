"""Locks on files: one holder at a time, in this process and in others, and none after it let go or died."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from artifactflow_nb.store.locks import is_locked, lock, unlock

HOLDER = "import sys; from pathlib import Path; from artifactflow_nb.store.locks import lock\n"
HOLDER += "kept = lock(Path(sys.argv[1])); print(kept is not None, flush=True); sys.stdin.read()"


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    """Whoever comes second gets nothing, and the lock again once it was let go; its file goes with it."""
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


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    """While a process has the lock nobody gets it; when it was killed its file is there still, and anybody gets it."""
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


def test_nobody_locks_a_file_that_is_gone(tmp_path: Path) -> None:
    """Many that take and let go at the same time never have the lock at once, though its file comes and goes."""
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


def test_a_lock_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """A folder that is not there is no lock that somebody has."""
    for use in (lock, is_locked):
        with pytest.raises(FileNotFoundError):
            use(tmp_path / "none" / "x.lock")
