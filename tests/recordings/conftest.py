"""A store made once by real runs, and a copy of it for each test."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from recordings.worked import make


@dataclass(frozen=True)
class Worked:
    """A store: its file, and the ids of its runs; the second continues the first, the third stands beside it."""

    store: Path
    first: str
    second: str
    beside: str


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, str, str]]:
    folder = tmp_path_factory.mktemp("worked")
    return folder, make(folder)


@pytest.fixture
def worked(made: tuple[Path, tuple[str, str, str]], tmp_path: Path) -> Worked:
    folder, ids = made
    shutil.copytree(folder / "data", tmp_path / "data")
    return Worked(tmp_path / "data" / "store.db", *ids)
