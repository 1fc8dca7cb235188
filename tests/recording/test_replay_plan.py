"""Plan runs are recorded, replayed, sealed and forked with their jobs."""

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.recorded_scenes import WAIT_S, Stage, assert_same, open_scene, play_both, rows, step_of
from support.replies import call, decide, plan, requesting_agent
from support.sealed_store import sealed_parts

import artifactflow_nb as af
from artifactflow_nb.core.plan import Plan
from artifactflow_nb.errors import CassetteError
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.schema import check_rows
from artifactflow_nb.tools.base import ToolContext
from artifactflow_nb.widgets.run.saved import saved_run

CONFIG = {"approval": {"enabled": True}}
OWN_STEP = re.compile(r"^Your step, \d+ of \d+: (.*)$", re.MULTILINE)
FAILS = [call("report_failure", reason="It is closed."), "It failed."]


def plan_script(request: ModelRequest) -> str:
    """A plan of three steps: the second step is retried and asks a person, the third step fails and is revised."""
    prompt = request.messages[1].content
    return _turns(requesting_agent(request), prompt)[step_of(request)]


def _turns(agent_name: str, prompt: str) -> list[str]:
    if agent_name == "agent":
        return [plan("Find", "Send", "Check"), "The answer."]
    if agent_name == "summarizer":
        return ["The sum."]
    if agent_name == "replanner":
        is_send = "(Send) failed." in prompt
        return [decide("retry" if is_send else "revise", steps=[] if is_send else [{"title": "Look"}]), "So be it."]
    step = OWN_STEP.findall(prompt)[-1]
    if step in {"Find", "Look"}:
        return [f"I {step.lower()}. " + call("look", word=step.lower()), f"{step}: seen. " * 5]
    return [call("send", to="Ada"), "Sent."] if "It was tried before" in prompt else FAILS


def with_tools(wb: af.Workbench) -> None:
    """A tool of the executor that asks nobody, and a tool that asks."""
    sent: list[str] = []
    wb.sent = sent  # type: ignore[attr-defined]  # for the tests

    @wb.tool(agent="executor")
    async def look(ctx: ToolContext, word: str) -> str:
        """Look a word up."""
        sent.append(word)
        return f"{word}, seen at {ctx.now.isoformat()}"

    @wb.tool(agent="executor", permission="confirm")
    async def send(ctx: ToolContext, to: str) -> str:
        """Send a letter."""
        sent.append(to)
        return f"sent to {to} at {ctx.now.isoformat()}"


def approved(stage: Stage, decider: str) -> af.Run:
    """A run in which a plan, a tool and a revision are approved one after the other."""
    run = stage.ask(flow="plan").wait(WAIT_S)
    while run.status == "waiting":
        getattr(stage, decider)(run, instruction="Go on.")
        run.wait(WAIT_S)
    return run


def planned(wb: af.Workbench) -> af.Run:
    run = wb.ask("What?", flow="plan").wait(WAIT_S)
    while run.pending:
        run.approve().wait(WAIT_S)
    assert (run.status, run.error) == ("completed", None)
    return run


def step_states(run: af.Run) -> list[tuple[str, str]]:
    return [(step.title, step.status) for step in Plan.from_json(run.artifacts["task_plan"].content).steps]


DONE = [("Find", "completed"), ("Send", "completed"), ("Check", "failed"), ("Look", "completed")]


@pytest.mark.parametrize("decider", ["click", "code"])
@pytest.mark.parametrize("protocol", ["xml", "native"])
def test_plan_is_replayed_byte_for_byte(tmp_path: Path, decider: str, protocol: str) -> None:
    """Retry, revision and decisions are played twice: events, jobs, versions of the plan and outputs are equal."""

    def scene(stage: Stage) -> Any:
        run = approved(stage, decider)
        return run.status, run.response, stage.wb.approvals_df(run)["kind"].tolist(), step_states(run)

    options: dict[str, Any] = {"setup": with_tools, "graph_config": CONFIG, "tool_protocol": protocol}
    status, response, kinds, steps = play_both(tmp_path, scene, plan_script, times=2, **options)
    assert (status, response) == ("completed", "The answer.")
    assert kinds == ["plan", "tool", "plan"]
    assert steps == DONE


def test_several_plans_of_a_conversation_are_replayed(tmp_path: Path) -> None:
    """The second plan is made in the same run; the third plan is made in a follow-up and cancelled."""

    def twice(request: ModelRequest) -> str:
        if requesting_agent(request) != "agent":
            return plan_script(request)
        return [plan("Find"), plan("Look"), "Both."][step_of(request)]

    def scene(stage: Stage) -> Any:
        first = approved(stage, "click")
        second = stage.ask("And?", flow="plan", conversation_id=first.conversation_id).wait(WAIT_S)
        stage.click(second)
        second.wait(WAIT_S)
        return [run.status for run in stage.runs], second.cancel().wait(WAIT_S).status

    options: dict[str, Any] = {"setup": with_tools, "graph_config": CONFIG}
    assert play_both(tmp_path, scene, twice, **options) == (["completed", "waiting"], "cancelled")


CUT_SHORT = [("Find", "completed"), ("Send", "failed"), ("Check", "skipped")]


def test_plan_cancelled_while_a_step_waits_is_replayed(tmp_path: Path) -> None:
    """The plan is closed with the run, at the same time and with the same event numbers."""

    def scene(stage: Stage) -> Any:
        run = stage.ask(flow="plan").wait(WAIT_S)
        return run.cancel().wait(WAIT_S).status, step_states(run)

    def asks_at_once(request: ModelRequest) -> str:
        is_send = (
            requesting_agent(request) == "executor" and OWN_STEP.findall(request.messages[1].content)[-1] == "Send"
        )
        return call("send", to="Ada") if is_send else plan_script(request)

    found = play_both(tmp_path, scene, asks_at_once, setup=with_tools)
    assert found == ("cancelled", CUT_SHORT)


def test_plan_cancelled_while_a_step_runs_is_replayed(tmp_path: Path) -> None:
    """The replay ends at the recorded event, with and without a new cancellation by code."""

    def long(request: ModelRequest) -> str:
        is_send = (
            requesting_agent(request) == "executor" and OWN_STEP.findall(request.messages[1].content)[-1] == "Send"
        )
        return "A long text. " * 200 if is_send else plan_script(request)

    def scene(stage: Stage) -> Any:
        run = stage.ask(flow="plan")
        while run.status == "running" and sum("A long" in str(event.content) for event in stage.events[0]) < 20:
            time.sleep(0.005)
        run.cancel()
        return run.wait(WAIT_S).status, step_states(run)

    found = play_both(tmp_path, scene, ScriptedModel(long, delay_s=0.005), setup=with_tools)
    assert found == ("cancelled", CUT_SHORT)


def test_sealed_plan_is_verified_and_imported(tmp_path: Path) -> None:
    """The file contains the jobs of the plan."""
    model = ScriptedModel(plan_script, delay_s=0.0005)
    with open_scene(tmp_path, model=model, record=tmp_path / "c.jsonl", setup=with_tools, graph_config=CONFIG) as wb:
        run = planned(wb)
        recorded = rows(wb)
        sealed = run.seal(tmp_path / "run.afrun")
        tools = [wb._thread.engine.tools.select([name])[0] for name in ("look", "send")]
    with af.open_run(sealed) as run:
        found = run.verify(tools=tools)
    assert (found.is_same, found.differences, found.prompts) == (True, (), ())
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "other") as other:
        other.store.import_run(sealed)
        assert rows(other)["plan_jobs"] == recorded["plan_jobs"]
        assert len(recorded["plan_jobs"]) == 8


def test_hostile_plan_jobs_are_refused(tmp_path: Path) -> None:
    """A job has an unknown kind, an invalid number or an unknown call."""
    with open_scene(tmp_path, model=ScriptedModel(plan_script), record=tmp_path / "c.jsonl", setup=with_tools) as wb:
        run_id = planned(wb).run_id
    parts = sealed_parts(tmp_path / "data" / "store.db", run_id)
    for flaw in ({"kind": "dance"}, {"n": 0}, {"tool_call_id": "tool-0"}):
        job = {**parts.rows["plan_jobs"][0], **flaw}
        changed = replace(parts.rows, tables={**parts.rows.tables, "plan_jobs": (job,)})
        with pytest.raises(CassetteError, match="plan_jobs .*(kind|n|tool_call_id)"):
            check_rows(changed)


@pytest.fixture
def planned_run(tmp_path: Path) -> Any:
    """A workbench that has carried out a plan, and the run of the plan."""
    cassette = tmp_path / "c.jsonl"
    with open_scene(
        tmp_path, model=ScriptedModel(plan_script), record=cassette, setup=with_tools, graph_config=CONFIG
    ) as wb:
        yield wb, planned(wb)


def approve_all(run: af.Run) -> af.Run:
    run.wait(WAIT_S)
    while run.pending:
        run.approve().wait(WAIT_S)
    assert (run.status, run.error) == ("completed", None)
    return run


def test_plan_can_be_forked_at_any_step(planned_run: Any) -> None:
    """Every third step is tried; each fork ends with the same plan."""
    wb, run = planned_run
    model, jobs = wb._thread.engine.model, rows(wb)["plan_jobs"]
    steps = list(run.steps)
    assert {"main", "main/1.1/0.1", "main/1.1/0.8"} <= {step.path for step in steps}
    for step in steps[::3]:
        n_requests, n_sent = len(model.requests), len(wb.sent)
        fork = approve_all(run.fork(step.number))
        before = [entry for entry in steps if entry.number < step.number]
        assert (fork.response, step_states(fork)) == (run.response, DONE)
        new_steps = [entry for entry in steps if entry not in before]
        assert len(model.requests) - n_requests == sum(entry.kind == "model" for entry in new_steps), step
        assert len(wb.sent) - n_sent == sum(
            entry.kind == "tool" and entry.name in {"look", "send"} for entry in new_steps
        )
        now = [row for row in rows(wb)["plan_jobs"] if row["run_id"] == fork.run_id]
        plan_jobs = [[(row["n"], row["kind"], row["step_id"], row["outcome"]) for row in each] for each in (jobs, now)]
        assert sorted(plan_jobs[0]) == sorted(plan_jobs[1])


def test_step_of_a_plan_can_be_changed(planned_run: Any) -> None:
    """Prompt, result and decision are changed, and the plan continues from there."""
    wb, run = planned_run
    model = wb._thread.engine.model
    number = {(step.kind, step.name): step.number for step in reversed(list(run.steps))}
    other = approve_all(run.fork(number["tool", "look"], tool_result="Nothing."))
    assert any("Nothing." in request.messages[-1].content for request in model.requests)
    assert step_states(other) == DONE
    denied = approve_all(run.fork(number["decision", "send"], decision=False))
    assert "Permission denied" in str(wb.tool_calls_df(denied)["error_message"].tolist())
    edited = af.Decision(True, params={"title": "Mine", "steps": [{"title": "Look"}]})
    mine = approve_all(run.fork(number["decision", "plan_create"], decision=edited))
    assert step_states(mine) == [("Look", "completed")]
    inside = next(step.number for step in run.steps if step.path == "main/1.1/0.1")
    approve_all(run.fork(inside, prompt="The task: What?\n\nYour step, 1 of 1: Look"))
    assert wb.sent[-1] == "look"


def test_fork_of_a_plan_is_replayed_and_verified(tmp_path: Path) -> None:
    """No model is called."""
    cassette = tmp_path / "c.jsonl"
    options: dict[str, Any] = {"setup": with_tools, "graph_config": CONFIG}

    def scene(wb: af.Workbench) -> af.Run:
        run = planned(wb)
        number = next(step.number for step in run.steps if step.kind == "tool" and step.name == "send")
        return approve_all(run.fork(number, tool_result="Sent by hand."))

    with open_scene(tmp_path, model=ScriptedModel(plan_script), record=cassette, **options) as wb:
        sealed = scene(wb).seal(tmp_path / "fork.afrun")
        recorded = rows(wb)
        tools = [wb._thread.engine.tools.select([name])[0] for name in ("look", "send")]
    with open_scene(tmp_path, replay=cassette, **options) as wb:
        scene(wb)
        assert_same(rows(wb), recorded)
    with af.open_run(sealed) as run:
        found = run.verify(tools=tools)
    assert (found.is_same, found.differences, found.prompts) == (True, (), ())


def test_plan_continued_by_another_engine_is_replayed(tmp_path: Path) -> None:
    """The plan is one recording."""
    cassette = tmp_path / "c.jsonl"
    options: dict[str, Any] = {"record": cassette, "setup": with_tools, "graph_config": CONFIG}
    with open_scene(tmp_path, model=ScriptedModel(plan_script), **options) as wb:
        run_id = wb.ask("What?", flow="plan").wait(WAIT_S).run_id
    with open_scene(tmp_path, model=ScriptedModel(plan_script), **options) as wb:
        run = approve_all(wb.run(run_id))
        recorded, shown = rows(wb), saved_run(run._client)["text/html"]
    with open_scene(tmp_path, replay=cassette, setup=with_tools, graph_config=CONFIG) as wb:
        again = approve_all(wb.ask("What?", flow="plan"))
        assert_same(rows(wb), recorded)
        assert saved_run(again._client)["text/html"] == shown
