"""A source manager with the readers of the plugin, on an open database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from artifactflow_nb.plugins.literature import LITERATURE
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.store.database import Database
from artifactflow_nb.testing import FakeClock


@pytest.fixture
async def sources(tmp_path: Path) -> AsyncIterator[SourceManager]:
    database = Database(tmp_path / "store.db")
    await database.open()
    manager = SourceManager(database, FakeClock())
    manager.readers |= LITERATURE.readers
    yield manager
    await database.close()
