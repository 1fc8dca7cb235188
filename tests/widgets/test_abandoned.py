"""Views of a run whose process was killed: the views show the interruption, and follow the run after a resume."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pages import ShownView

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import ToolContext
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.conversations.view import TreeView
from artifactflow_nb.widgets.page.view import View
from artifactflow_nb.widgets.run import saved as frozen
from artifactflow_nb.widgets.run.saved import hint_for_status
from artifactflow_nb.widgets.run.view import RunView
from artifactflow_nb.widgets.timeline import TimelineView

KILLED = """
import sys, time
import artifactflow_nb as af
from artifactflow_nb.tools.base import ToolContext, tool

@tool(idempotent=True)
def ponder(ctx: ToolContext) -> str:
    "Think for long."
    print("pondering", flush=True)
    time.sleep(60)
    return "thought"

call = "<tool_call><name>ponder</name><params></params></tool_call>"
wb = af.Workbench(model=af.ScriptedModel(["I ponder." + call]), data_dir=sys.argv[1])
wb.tool(ponder)
print(wb.ask("What then?").wait().run_id)
"""
HINT = "Abandoned: its process has ended. run.resume() continues it."


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a process that was killed while a tool of its run ran."""
    folder = tmp_path_factory.mktemp("killed") / "data"
    killed = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE)
    with killed:
        assert killed.stdout
        killed.stdout.readline()
        killed.kill()
    return folder


@pytest.fixture
def wb(left: Path, tmp_path: Path) -> Iterator[af.Workbench]:
    """A workbench over a copy of the store of the killed process."""
    workbench = af.Workbench(model=ScriptedModel(["It is over."]), data_dir=shutil.copytree(left, tmp_path / "data"))

    @workbench.tool(idempotent=True)
    def ponder(ctx: ToolContext) -> str:
        """Think for long."""
        return "thought"

    yield workbench
    workbench.close()


def views(wb: af.Workbench) -> dict[str, View]:
    (run,) = wb.runs(unfinished=True)
    return {
        "run": RunView(run._client),
        "view": ChatView(wb._thread, run.conversation_id, single_message_id=run.message_id),
        "chat": ChatView(wb._thread, run.conversation_id),
        "timeline": TimelineView(run._client),
        "tree": TreeView(wb._thread, run.conversation_id),
    }


@pytest.mark.parametrize("name", ["run", "view", "chat", "timeline", "tree"])
def test_view_shows_interruption_and_follows_resumed_run(wb: af.Workbench, name: str) -> None:
    """The view shows the interruption at once, live and saved, without running times, and the end after a resume."""
    (run,) = wb.runs(unfinished=True)
    page = ShownView(wb._thread, views(wb)[name])
    if name == "tree":
        page.do("read", {"message": run.message_id})
    assert HINT in page.text
    assert "data-since" not in "".join(page.html.values())
    for media_type, shown in page.view.saved_output().items():
        assert ("Abandoned" if name == "tree" else HINT) in shown, media_type
    assert "Running" not in page.text
    run.resume()
    page.until(lambda: "Completed" in page.text)
    assert HINT not in page.text


@pytest.mark.parametrize("name", ["run", "view", "chat", "tree"])
def test_resume_button_resumes_run(wb: af.Workbench, name: str) -> None:
    """The view has a Resume button until the run is resumed."""
    (run,) = wb.runs(unfinished=True)
    page = ShownView(wb._thread, views(wb)[name])
    if name == "tree":
        page.do("read", {"message": run.message_id})
    error_text = page.press("Resume: continue the abandoned run")
    assert not error_text["failed"], error_text
    assert "Resume: continue the abandoned run" not in page.buttons
    page.until(lambda: "It is over." in page.text and "Completed" in page.text)
    assert page.do("resume", {"message": run.message_id})["failed"]


def test_abandoned_run_can_be_cancelled(wb: af.Workbench) -> None:
    """The Stop button next to Resume cancels the run."""
    (run,) = wb.runs(unfinished=True)
    page = ShownView(wb._thread, views(wb)["view"])
    page.press("Stop this run")
    page.until(lambda: "Cancelled" in page.text)
    assert run.status == "cancelled"


def test_polling_detects_dead_process(tmp_path: Path) -> None:
    """A run of another process turns from running to abandoned when the process is killed."""
    folder = tmp_path / "data"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE) as driving:
        assert driving.stdout
        driving.stdout.readline()
        with af.Workbench(model=ScriptedModel([]), data_dir=folder) as wb:
            page = ShownView(wb._thread, views(wb)["chat"])
            assert "Running" in page.text
            assert hint_for_status("running") in page.view.saved_output()["text/html"]
            driving.kill()
            page.until(lambda: HINT in page.text)
            page.until(lambda: page.saved_outputs and HINT in page.saved_outputs[-1]["text/html"])


def test_run_handle_shows_interruption(wb: af.Workbench) -> None:
    """The saved output of an unattended notebook says that the run can be resumed."""
    (run,) = wb.runs(unfinished=True)
    for media_type, shown in frozen.saved_run(run._client).items():
        assert HINT in shown, media_type
