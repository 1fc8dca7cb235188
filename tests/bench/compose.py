"""How well independent blocks are written at the same time.

The model answers each block after a fixed time, however many blocks wait. The floor is the time of one block, since all
of them can be requested at once.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from bench.figures import Figure

from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.edits import BlockPosition, NewBlock, add_block
from artifactflow_nb.plugins.projects.project import ProjectTemplate, project_conversation_id
from artifactflow_nb.plugins.projects.store import ProjectStore
from artifactflow_nb.store.artifacts import USER, Authorship

BLOCKS = 50
MODEL_S = 8.0
"""The time of a current model for a block of one page."""

MOST = 1.15
TEXT = "A sentence of the block that says something about its subject. " * 40


class Slow(ScriptedModel):
    """Answers after a delay, in a steady stream of pieces."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        ends = asyncio.get_running_loop().time() + MODEL_S
        events = [event async for event in super().stream(request)]
        for n, event in enumerate(events, 1):
            due = ends - MODEL_S * (1 - n / len(events))
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            yield event


async def figures() -> AsyncIterator[Figure]:
    """The time for many blocks divided by that for one."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.load(data_dir=Path(folder))
        model = Slow(lambda _request: TEXT, chunk_chars=64)
        async with Engine(settings, agent_models={"writer": model}) as engine:
            wanted = await _project(engine)
            began = time.perf_counter()
            await _write(engine, wanted)
            seconds = time.perf_counter() - began
            yield Figure(f"compose: {BLOCKS} blocks at once, to one", seconds, MODEL_S, "s", MOST)


async def _project(engine: Engine) -> list[str]:
    """Create a project with many blocks; return their ids."""
    await engine.service(ProjectStore).create("bench", ProjectTemplate.load("paper"), USER)
    by = Authorship(project_conversation_id("bench"), None, USER)
    versions = []
    for n in range(BLOCKS):
        new = NewBlock(f"Block {n}", BlockPosition("writing"), {"auto_generate": True})
        versions += await engine.service(ProjectStore).change(by, lambda tree, new=new: add_block(tree, new))
    return [version.artifact_id for version in versions]


async def _write(engine: Engine, wanted: list[str]) -> None:
    run = await engine.controller.begin(
        "Write all.", conversation_id=project_conversation_id("bench"), flow="compose", work={"write": wanted}
    )
    await (await engine.controller.start(run))
    tree = await engine.service(ProjectStore).tree(run.conversation_id, run.message_id)
    if {block.status for block in tree} != {"completed"}:
        raise AssertionError(f"Not all were written: {[block.name for block in tree if block.status != 'completed']}")
