"""A store with sample runs, made once, and a copy of the store for each test."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.sealed_store import make


@dataclass(frozen=True)
class SampleStore:
    """A store with runs of one conversation.

    Attributes:
        path: The file.
        first: The id of the first run.
        second: The id of a run that continues the first run.
        sibling: The id of a run on another branch, a sibling of the second run.
    """

    path: Path
    first: str
    second: str
    sibling: str


@pytest.fixture(scope="session")
def sample_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, str, str]]:
    folder = tmp_path_factory.mktemp("samples")
    return folder, make(folder)


@pytest.fixture
def samples(sample_runs: tuple[Path, tuple[str, str, str]], tmp_path: Path) -> SampleStore:
    folder, ids = sample_runs
    shutil.copytree(folder / "data", tmp_path / "data")
    return SampleStore(tmp_path / "data" / "store.db", *ids)
