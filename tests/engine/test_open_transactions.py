"""A turn has no open transaction while it waits for a model, a tool or a person."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

from conftest import OpenEngine
from support.replies import by_agent, call, delegate, report

from artifactflow_nb.engine.engine import CHECKPOINT_FILE
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import Script, ScriptedModel
from artifactflow_nb.tools.base import ToolContext, tool

PATIENCE_S = 2.0


def is_free(folder: Path) -> bool:
    """Return whether both files can be written without a wait, and no connection reads an old state."""
    try:
        for name in (STORE_FILE, CHECKPOINT_FILE):
            with closing(sqlite3.connect(folder / name, timeout=0, isolation_level=None)) as db:
                db.execute("BEGIN IMMEDIATE")
                db.execute("ROLLBACK")
                if db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                    return False
    except sqlite3.OperationalError:
        return False
    return True


async def becomes_free(folder: Path) -> bool:
    """Return whether both files become free soon: LangGraph still writes for a moment after a node has ended."""
    for _ in range(int(PATIENCE_S / 0.01)):
        if is_free(folder):
            return True
        await asyncio.sleep(0.01)
    return False


class Thoughtful(ScriptedModel):
    """A model that notes at the beginning and in the middle of each turn whether the store is free."""

    def __init__(self, script: Script, folder: Path) -> None:
        super().__init__(script)
        self._folder = folder
        self.found: list[bool] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.found.append(await becomes_free(self._folder))
        async for event in super().stream(request):
            yield event
            if len(self.found) % 2:  # the first piece has been published
                self.found.append(await becomes_free(self._folder))


async def test_store_can_be_written_while_a_turn_waits(open_engine: OpenEngine, tmp_path: Path) -> None:
    """Another connection can write while a turn waits for a model, a tool, a sub-agent or a person."""
    folder = tmp_path / "data"
    script = by_agent(
        lead=[call("pause") + delegate("search_agent", "pause"), report(), "Done."], search=[call("pause"), "paused"]
    )
    is_writable: dict[str, bool] = {}

    @tool
    async def pause(ctx: ToolContext) -> str:
        """Pause."""
        is_writable[ctx.agent] = await becomes_free(folder)
        return "rested"

    model = Thoughtful(script, folder)
    engine = await open_engine(model=model, approvals={"create_artifact": "ask"}, folder=folder)
    engine.register_tool(pause)
    engine.register_tool(pause, agent="search_agent")
    waiting = await engine.controller.execute("Take your time.")
    assert waiting.status == "waiting"
    assert is_free(folder), "nothing is under way when a run waits"
    result = await engine.controller.resume(waiting.thread_id, approved=True)
    assert result.status == "completed", result.error_message
    assert is_writable == {"lead_agent": True, "search_agent": True}
    assert model.found == [True] * 10


async def test_concurrent_turns_do_not_lock_each_other_out(open_engine: OpenEngine) -> None:
    """Twelve concurrent turns of two engines on one store complete, each with its own artifact."""
    model = ScriptedModel(
        lambda request: "Done." if len(request.messages) > 2 else report(request.messages[1].content), delay_s=0.001
    )
    engines = [await open_engine(model=model) for _ in range(2)]
    results = await asyncio.gather(*(engines[n % 2].controller.execute(f"Question {n}?") for n in range(12)))
    assert [(result.status, result.error_message) for result in results] == [("completed", None)] * 12
    for number, result in enumerate(results):
        (written,) = await engines[0].artifacts.list_artifacts(result.conversation_id, message_id=result.message_id)
        assert written.content == f"Question {number}?"
