"""The blocks of a project, against reading the same rows with sqlite3 and orjson.

A project of 500 blocks of 3 KB, each written five times, most of which depend on the one before them: the index that a
prompt holds (a line for each with its name, status, first line and what made it stale), on the store's reading thread,
as after any change. The floor reads the newest version of each, its text too, and what it notes as JSON.
"""

import sqlite3
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
from bench.figures import Figure, cpu_seconds

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.plugins.projects.agents import format_block_index
from artifactflow_nb.plugins.projects.edits import BlockEdit, write_block
from artifactflow_nb.plugins.projects.project import ProjectTemplate, project_conversation_id
from artifactflow_nb.plugins.projects.store import ProjectStore, load_project
from artifactflow_nb.plugins.projects.tree import BlockTree
from artifactflow_nb.store.artifacts import USER, ArtifactManager, Authorship
from artifactflow_nb.store.database import Database

BLOCKS = 500
TARGET = 4.0
ALLOWANCE_MS = 1.0

_TIMES = 5
_TEXT = "A sentence of the text of a block. " * 87
_CONVERSATION = project_conversation_id("bench")
_PLAIN = """
SELECT v.title, v.content, v.metadata_json FROM artifact_versions v JOIN (
    SELECT artifact_id, max(version) AS version FROM artifact_versions WHERE conversation_id = ? GROUP BY artifact_id
) USING (artifact_id, version) WHERE v.conversation_id = ? AND v.metadata_json IS NOT NULL
"""
_REPEATS = 15


async def figures() -> AsyncIterator[Figure]:
    """The index of a prompt."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder) / "store.db")
        await database.open()
        await _fill(database)

        async def plain() -> object:
            return await database.read(_floor)

        async def index() -> object:
            return await database.read(_index)

        stale = (await database.read(_index)).count("STALE")
        if stale != BLOCKS - BLOCKS // 5:
            raise AssertionError(f"{stale} of {BLOCKS} blocks are stale.")
        seconds = await cpu_seconds({"plain": plain, "index": index}, repeats=_REPEATS)
        await database.close()
    label = f"index of {BLOCKS} blocks / sqlite3 and orjson"
    yield Figure(label, seconds["index"] * 1000, seconds["plain"] * 1000, "ms", TARGET, ALLOWANCE_MS)


def _floor(db: sqlite3.Connection) -> list[Any]:
    rows = db.execute(_PLAIN, (_CONVERSATION, _CONVERSATION))
    return [(title, content, orjson.loads(noted)) for title, content, noted in rows]


def _index(db: sqlite3.Connection) -> str:
    return format_block_index(load_project(db, _CONVERSATION, None)[1])


# --- what is stored ------------------------------------------------------------------------------------------------


async def _fill(database: Database) -> None:
    """A project with chains of five blocks that its last change made stale."""
    clock = SystemClock()
    store = ProjectStore(database, ArtifactManager(database, clock))
    drafts = [{"name": f"Block {n}", "depends_on": [f"Block {n - 1}"] if n % 5 else []} for n in range(BLOCKS)]
    await store.create("bench", ProjectTemplate.load({"name": "bench", "phases": ["one"], "blocks": drafts}), USER)
    by = Authorship(_CONVERSATION, None, USER)
    for time in range(_TIMES):
        await store.change(by, _all_written(f"{time} {_TEXT}"))


def _all_written(text: str) -> BlockEdit:
    """Write each block with the versions of its dependencies."""

    def edit(tree: BlockTree) -> Any:
        return [write_block(tree, block.block_id, text, USER)[0] for block in tree]

    return edit
