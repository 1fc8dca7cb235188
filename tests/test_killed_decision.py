"""A process that is killed in the middle of what a person had approved: the approval is kept, nothing is done twice."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenEngine

from artifactflow_nb.engine import Engine
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import Tool, ToolContext, tool

TESTS = Path(__file__).parent

DIES_IN_ITS_TOOL = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from artifactflow_nb.engine import Engine
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.settings import Settings
from scripts import call
from test_killed_decision import send_with

def die():
    os.kill(os.getpid(), 9)

async def main():
    folder, idempotent = Path(sys.argv[1]), sys.argv[3] == "idempotent"
    engine = Engine(Settings.load(data_dir=folder), model=ScriptedModel([call("send")]))
    engine.register_tool(send_with(folder / "sent", then=die, idempotent=idempotent))
    await engine.open()
    waiting = await engine.controller.execute("Send.")
    await engine.controller.resume(waiting.thread_id, approved=True)

asyncio.run(main())
"""


def send_with(path: Path, *, then: Any = lambda: None, idempotent: bool) -> Tool:
    @tool(permission="confirm", idempotent=idempotent)
    async def send(ctx: ToolContext) -> str:
        """Send a letter."""
        with path.open("a", encoding="utf-8") as letters:
            letters.write(f"{ctx.tool_call_id}\n")
        then()
        return "sent"

    return send


@pytest.mark.parametrize(
    ("kind", "letters", "told"), [("once", 1, "nobody knows whether it took effect"), ("idempotent", 2, "sent")]
)
async def test_an_approval_outlives_a_kill_within_what_was_approved(
    open_engine: OpenEngine, tmp_path: Path, kind: str, letters: int, told: str
) -> None:
    """Killed inside the approved tool, nobody is asked again, and only an idempotent tool is run again."""
    folder = tmp_path / "data"
    command = [sys.executable, "-c", DIES_IN_ITS_TOOL, str(folder), str(TESTS), kind]
    killed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)  # noqa: ASYNC221 - alone
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    engine: Engine = await open_engine(["It is done."], folder=folder)
    engine.register_tool(send_with(folder / "sent", idempotent=kind == "idempotent"))
    (run,) = await engine.runs.unfinished()
    await (await engine.controller.start(run))
    result = await engine.controller.result(run.run_id)

    assert (result.status, result.response, result.pending) == ("completed", "It is done.", ())
    assert len((folder / "sent").read_text().split()) == letters
    model: Any = engine.model
    assert isinstance(model, ScriptedModel)
    assert len(model.requests) == 1, "the reply that called the tool was stored, and is not asked for again"
    assert told in model.requests[0].messages[-1].content
    events = [event.type for event in await engine.runs.events(run.run_id)]
    once = (StreamEventType.PERMISSION_REQUEST, StreamEventType.PERMISSION_RESULT, StreamEventType.TOOL_START)
    assert [events.count(kind) for kind in once] == [1, 1, 1]
