"""A run is recorded, replayed and sealed with its subruns, each with its own approvals."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from flows.test_run_research import FOUND, LOOKING, REPORT, flows, research, turns
from support.forked_python import fast_python
from support.recorded_scenes import WAIT_S, Stage, open_scene, play_both
from support.replies import call, report

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.handle import Project
from artifactflow_nb.tools.base import ToolContext

TESTS = Path(__file__).parent.parent

BOTH = research("What is X?") + research("What is Y?")


def with_look(wb: af.Workbench) -> None:
    """Register a tool of the lead that needs approval."""

    async def look(ctx: ToolContext, word: str) -> str:
        """Look a word up."""
        return f"{word} stands in the book"

    wb.tool(af.tool(permission="confirm")(look), agent="lead_agent")


def ask_for_research(stage: Stage) -> tuple[Project, af.Run]:
    """A run that starts a research subrun, after its end or first pause."""
    project = stage.wb.projects.start("Essay", template="paper")
    run = stage.ask("Find out.", conversation_id=project.conversation_id, flow="compose")
    return project, run.wait(WAIT_S)


def comparable(project: Project, run: af.Run) -> Any:
    return (
        run.status,
        run.response if run.status == "completed" else None,
        [(block.path, block.content, block.version) for block in project.blocks],
    )


@pytest.mark.parametrize("calls", [(research(),), (BOTH,), (research(), research("What is Y?"))])
def test_subruns_are_replayed_byte_for_byte(tmp_path: Path, calls: Any) -> None:
    """There is one subrun, two are parallel, or one follows another; ids are equal, and no model is called."""

    def scene(stage: Stage) -> Any:
        return comparable(*ask_for_research(stage))

    status, _, blocks = play_both(tmp_path, scene, turns(*calls, "Done."), times=2)
    assert status == "completed"
    assert blocks[0][1] == REPORT


@pytest.mark.parametrize("options", ["click", "code"])
@pytest.mark.parametrize("composer", [(research(), "Done."), (BOTH, "Done.")])
def test_subrun_that_waited_is_replayed(tmp_path: Path, options: str, composer: Any) -> None:
    """Pauses and decisions of both runs are equal, by click or by code."""

    def scene(stage: Stage) -> Any:
        project, run = ask_for_research(stage)
        while run.status == "waiting":
            getattr(stage, options)(run)
            run.wait(WAIT_S)
        return comparable(project, run)

    status, _, blocks = play_both(tmp_path, scene, turns(*composer, lead=LOOKING), times=2, setup=with_look)
    assert (status, blocks[0][1]) == ("completed", REPORT)


@pytest.mark.parametrize("options", ["click", "code"])
def test_subrun_with_a_denial_and_an_approval_is_replayed(tmp_path: Path, options: str) -> None:
    """Each decision has its own pause."""
    lead = (call("look", word="X"), call("look", word="Y"), report(REPORT), "X is a letter.")

    def scene(stage: Stage) -> Any:
        project, run = ask_for_research(stage)
        getattr(stage, options)(run, approved=False)
        run.wait(WAIT_S)
        getattr(stage, options)(run)
        return comparable(project, run.wait(WAIT_S))

    status, *_ = play_both(tmp_path, scene, turns(research(), "Done.", lead=lead), times=2, setup=with_look)
    assert status == "completed"


@pytest.mark.parametrize("is_click", [True, False])
def test_run_cancelled_while_its_subrun_waited_is_replayed(tmp_path: Path, is_click: bool) -> None:
    """Run and subrun end as recorded; a click is repeated."""

    def scene(stage: Stage) -> Any:
        project, run = ask_for_research(stage)
        if not is_click:
            run.cancel()
        elif not stage.is_played:
            stage.wb._thread.call(run._client.cancel())
        run.wait(WAIT_S)
        return comparable(project, run)

    status, *_ = play_both(tmp_path, scene, turns(research(), "Done.", lead=LOOKING), times=2, setup=with_look)
    assert status == "cancelled"


def test_repeated_question_finds_its_own_subrun(tmp_path: Path) -> None:
    """The subrun is found in each mode."""

    def scene(stage: Stage) -> Any:
        first, second = ask_for_research(stage), ask_for_research(stage)
        return comparable(*first), comparable(*second)

    play_both(tmp_path, scene, turns(research(), "Done."), times=2)
    with open_scene(tmp_path / "b", model=ScriptedModel([]), record=tmp_path / "c.jsonl", mode="auto") as wb:
        stage = Stage(wb, is_played=True)
        assert scene(stage)[0][0] == "completed"


def test_sealed_run_is_verified_and_imported_with_its_subruns(tmp_path: Path) -> None:
    model = ScriptedModel(turns(research(), "Done.", lead=LOOKING))
    with open_scene(tmp_path, model=model, record=tmp_path / "c.jsonl", approvals="approve", setup=with_look) as wb:
        run = wb.projects.start("Essay", template="paper").ask("Find out.").wait(WAIT_S)
        run.seal(tmp_path / "run.afrun")
        subrun_id = flows(wb)["research"]["run_id"]
        wb.run(subrun_id).seal(tmp_path / "subrun.afrun")
    for name in ("run", "subrun"):
        assert af.open_run(tmp_path / f"{name}.afrun").verify().differences == ()
    with open_scene(tmp_path / "other", model=ScriptedModel([]), data_dir=tmp_path / "other") as wb:
        wb.store.import_run(tmp_path / "run.afrun")
        assert wb.projects.start("Essay")["What is X?"].content == REPORT
        assert set(wb.runs_df()["run_id"]) == {run.run_id, subrun_id}


def test_verification_repeats_the_click_on_a_subrun(tmp_path: Path) -> None:
    with open_scene(
        tmp_path, model=ScriptedModel(turns(research(), "Done.", lead=LOOKING)), data_dir=tmp_path / "data"
    ) as wb:
        with_look(wb)
        run = wb.projects.start("Essay", template="paper").ask("Find out.").wait(WAIT_S)
        run.approve().wait(WAIT_S)
        run.seal(tmp_path / "run.afrun")
    assert af.open_run(tmp_path / "run.afrun").verify().differences == ()


DIES = """
import os, sys
sys.path[:0] = [sys.argv[2]]
import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from flows.test_run_research import research, turns
from support.replies import requesting_agent

scripted_turn = turns(research(), "Done.")
left = int(sys.argv[4])

def dying(request):
    global left
    if requesting_agent(request) == sys.argv[3]:
        if not left:
            os.kill(os.getpid(), 9)
        left -= 1
    return scripted_turn(request)

wb = af.Workbench(data_dir=sys.argv[1], model=ScriptedModel(dying), interactive=False)
wb.projects.start("Essay", template="paper").ask("Find out.").wait()
"""


@pytest.mark.parametrize(("agent_name", "after"), [("lead", 0), ("lead", 1), ("composer", 1)])
def test_subrun_of_a_killed_process_is_continued(tmp_path: Path, agent_name: str, after: int) -> None:
    """The process was killed at the subrun's first or last turn, or later; no request or start is repeated."""
    code = [*fast_python(), "-c", DIES, str(tmp_path / "data"), str(TESTS), agent_name, str(after)]
    killed = subprocess.run(code, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    model = ScriptedModel(turns(research(), "Done.", lead=FOUND))
    with af.Workbench(data_dir=tmp_path / "data", model=model, interactive=False) as wb:
        [run] = wb.runs(unfinished=True)
        assert run.resume().wait(WAIT_S).status == "completed"
        assert wb.projects.start("Essay")["What is X?"].content == REPORT
        frame = wb.runs_df()
        assert list(frame["status"]) == ["completed", "completed"]
        calls = wb.llm_calls_df()
        done = calls[calls["error_type"].isna()]
        assert len(done) == 4
    assert len(model.requests) == {("lead", 0): 3, ("lead", 1): 2, ("composer", 1): 1}[agent_name, after]
