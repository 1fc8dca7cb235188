"""A process is killed during an approved action: the approval stays stored, and no action is repeated."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenEngine, OpenWorkbench
from support.forked_python import fast_python

import artifactflow_nb as af
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.conversation_tree import load_tree_entries
from artifactflow_nb.store.ownership import RunLocks
from artifactflow_nb.tools.base import Tool, ToolContext, tool
from artifactflow_nb.widgets.run.saved import saved_run

TESTS = Path(__file__).parents[1]

DIES_IN_ITS_TOOL = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.engine.settings import Settings
from support.replies import call
from engine.test_killed_decision import send_with

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
    ("kind", "letters", "message"), [("once", 1, "nobody knows whether it took effect"), ("idempotent", 2, "sent")]
)
async def test_approval_survives_a_kill_during_the_approved_call(
    open_engine: OpenEngine, tmp_path: Path, kind: str, letters: int, message: str
) -> None:
    """The call is not requested again, and only an idempotent tool is run again."""
    folder = tmp_path / "data"
    command = [*fast_python(), "-c", DIES_IN_ITS_TOOL, str(folder), str(TESTS), kind]
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
    assert message in model.requests[0].messages[-1].content
    events = [event.type for event in await engine.runs.events(run.run_id)]
    once = (StreamEventType.PERMISSION_REQUEST, StreamEventType.PERMISSION_RESULT, StreamEventType.TOOL_START)
    assert [events.count(kind) for kind in once] == [1, 1, 1]


DIES_BEFORE_THE_START = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
import artifactflow_nb as af
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.engine.settings import Settings
from support.replies import call
from engine.test_killed_decision import send_with

async def main():
    folder = Path(sys.argv[1])
    engine = Engine(Settings.load(data_dir=folder), model=ScriptedModel([call("send")]))
    engine.register_tool(send_with(folder / "sent", idempotent=False))
    await engine.open()
    waiting = await engine.controller.execute("Send.")
    controller = engine.controller
    store_decision = controller._services.approvals.decide

    async def decide_and_die(*decisions):
        await store_decision(*decisions)
        os.kill(os.getpid(), 9)

    controller._services.approvals.decide = decide_and_die
    await controller.decide(waiting.pending[0].id, af.Decision(True))

asyncio.run(main())
"""


@pytest.fixture
def wb(tmp_path: Path, workbench: OpenWorkbench) -> af.Workbench:
    """A workbench with a run that was killed between its stored decision and its start."""
    folder = tmp_path / "data"
    command = [*fast_python(), "-c", DIES_BEFORE_THE_START, str(folder), str(TESTS)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    opened = workbench(["It is done."], data_dir=folder, interactive=False)
    opened.tool(send_with(folder / "sent", idempotent=False))
    return opened


def test_run_killed_between_decision_and_start_is_abandoned(wb: af.Workbench) -> None:
    """Handle, frames, tree and saved output show the run as abandoned, without a form, and say how to continue."""
    run = wb.runs()[0]
    assert (run.status, list(run.pending), run.wait().status) == ("abandoned", [], "abandoned")
    assert list(wb.runs_df().status) == list(wb.messages_df().status) == ["abandoned"]
    assert list(wb.runs_df(status="abandoned").run_id) == [run.run_id]
    (entry,) = run._client.read(lambda db: load_tree_entries(db, run._thread.engine.folder, run.conversation_id))
    assert entry.status == "abandoned"
    for saved_output in saved_run(run._client).values():
        assert "run.resume()" in saved_output
        assert "run.approve()" not in saved_output
    assert "1 abandoned" in wb._repr_html_()


def test_second_decision_on_an_abandoned_run_is_refused_with_advice(wb: af.Workbench) -> None:
    """The error says that the request was decided and that run.resume() continues the run."""
    run = wb.runs()[0]
    request_id = run._client.read(lambda db: db.execute("SELECT request_id FROM approvals").fetchone()[0])
    with pytest.raises(af.errors.NotFound, match=r"all requests were decided.*run.resume\(\)"):
        run.approve()
    with pytest.raises(af.errors.Conflict, match=r"decided already: approved.*run.resume\(\)"):
        run.approve(request_id)
    with pytest.raises(af.errors.Conflict, match=r"decided already: approved.*run.resume\(\)"):
        wb.run(run.run_id).approve(request_id)


def test_resume_completes_the_run_that_was_killed(wb: af.Workbench, tmp_path: Path) -> None:
    """The approved letter is sent once, and the run ends."""
    run = wb.runs()[0]
    assert run.resume().wait().status == "completed"
    assert run.response == "It is done."
    assert len((tmp_path / "data" / "sent").read_text().split()) == 1
    assert not list((tmp_path / "data" / "owners").glob("start-*"))


def test_run_that_is_being_started_is_not_abandoned(wb: af.Workbench, tmp_path: Path) -> None:
    """While a process holds the start lock of a decided run, other processes see the run as waiting."""
    run = wb.runs()[0]
    ownership = RunLocks(tmp_path / "data", "eng-other")
    with ownership.starting(f"start-{run.run_id}"):
        assert run.status == "waiting"
    assert run.status == "abandoned"
