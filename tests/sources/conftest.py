"""An open database and a source manager on it, for the tests of sources."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.store.database import Database
from artifactflow_nb.testing import FakeClock


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(tmp_path / "store.db")
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
def sources(database: Database) -> SourceManager:
    return SourceManager(database, FakeClock())
