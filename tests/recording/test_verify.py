"""A recorded run is executed again behind the public protocols, and differences are reported."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from recording import test_replay_plan, test_replay_subrun_decisions
from support.graphs import ScriptedChat, prebuilt
from support.graphs import ai_message as graph_reply
from support.recorded_scenes import Stage, open_scene, open_workbench, script, with_look
from support.replies import call, delegate, in_request_protocol, report

import artifactflow_nb as af
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.errors import ModelUnavailable
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.rows import RunRows
from artifactflow_nb.recording.seal import load_parts
from artifactflow_nb.recording.verify import verify
from artifactflow_nb.store.database import connect


def recorded(run: af.Run, store: Path) -> RunRows:
    with closing(connect(store)) as db:
        db.execute("BEGIN")
        return load_parts(db, run.run_id, Redactor(())).rows


@pytest.mark.parametrize("protocol", ["xml", "native"])
def test_recorded_run_comes_out_the_same(tmp_path: Path, protocol: str) -> None:
    """The run has two parallel sub-agents, a tool of the user, a decision and an artifact."""
    model = ScriptedModel(in_request_protocol(script))
    with open_workbench(tmp_path, model=model, tool_protocol=protocol, record=tmp_path / "c.jsonl") as wb:
        run = wb.ask("Fruit?").wait(20).approve(note="Go on.").wait(20)
        tools = [entry for entry in wb._thread.engine.tools if entry.name == "look"]
        rows = recorded(run, wb._store)
    report = verify(rows, tools=tools)
    assert (report.differences, report.prompts) == ((), ())
    assert "came out the same" in repr(report)


def test_changed_prompt_is_reported_with_its_difference(tmp_path: Path) -> None:
    with open_workbench(tmp_path, model=ScriptedModel(script), record=tmp_path / "c.jsonl") as wb:
        run = wb.ask("Fruit?").wait(20).approve().wait(20)
        rows = recorded(run, wb._store)
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "search_agent.md").write_text("You search otherwise.", "utf-8")
    found = verify(rows, prompts=tmp_path / "prompts")
    assert found.differences == ()
    assert any("+You search otherwise." in difference for difference in found.prompts)


def test_changed_result_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_workbench(
        tmp_path, model=ScriptedModel([report("One."), "Done."]), approvals="approve", record=tmp_path / "c"
    ) as wb:
        rows = recorded(wb.ask("Q").wait(20), wb._store)
    versions = tuple({**row, "content": "Another."} for row in rows["artifact_versions"])
    changed = RunRows(rows.run_id, {**rows.tables, "artifact_versions": versions})
    assert any(
        "artifact research_report v1: 'Another.' became 'One.'" in difference
        for difference in verify(changed).differences
    )


@pytest.mark.parametrize("flow", ["research", "plan"])
def test_follow_ups_of_the_offline_model_come_out_the_same(tmp_path: Path, flow: str) -> None:
    with af.Workbench(approvals="approve", interactive=False, data_dir=tmp_path / "data") as wb:
        first = wb.ask("What does the with statement do?", flow=flow).wait(60)
        second = wb.ask("And async with?", conversation_id=first, flow=flow).wait(60)
        rows = recorded(second, wb._store)
    found = verify(rows)
    assert (found.differences, found.prompts) == ((), ())


def test_failed_and_denied_runs_come_out_the_same(tmp_path: Path) -> None:
    turns: list[Any] = [call("create_artifact", id="a", title="A", content="A."), ModelUnavailable("Too busy.")]
    with open_workbench(tmp_path, model=ScriptedModel(turns), record=tmp_path / "c") as wb:
        run = wb.ask("Q").wait(20).deny("No.").wait(20)
        assert run.status == "failed"
        rows = recorded(run, wb._store)
    assert verify(rows).differences == ()


def test_plan_compose_and_research_of_a_project_come_out_the_same(tmp_path: Path) -> None:
    """The runs have subruns, and notes of a person, which the engine adds to results again."""
    options: dict[str, Any] = {"setup": test_replay_plan.with_tools, "graph_config": test_replay_plan.CONFIG}
    with open_scene(
        tmp_path / "plan", model=ScriptedModel(test_replay_plan.plan_script), record=tmp_path / "p", **options
    ) as wb:
        run = test_replay_plan.approved(Stage(wb, is_played=False), "code")
        tools = [entry for entry in wb._thread.engine.tools if entry.name in {"look", "send"}]
        found = [verify(recorded(run, wb._store), tools=tools)]
    model = test_replay_subrun_decisions.Researching({"X": 1, "Y": 1}, {})
    with open_scene(tmp_path / "compose", model=model, record=tmp_path / "c", setup=with_look) as wb:
        _, run = test_replay_subrun_decisions.ask_for_research(Stage(wb, is_played=False))
        while run.pending:
            run.approve(run.pending[0].id).wait(20)
        tools = [entry for entry in wb._thread.engine.tools if entry.name == "look"]
        found.append(verify(recorded(run, wb._store), tools=tools))
    assert [(item.differences, item.prompts) for item in found] == [((), ())] * 2


# --- a sealed file ---------------------------------------------------------------------------------------------------


@pytest.fixture
def sealed_fork(tmp_path: Path) -> Path:
    """A sealed fork of a run that continues another run."""
    with open_workbench(tmp_path, model=ScriptedModel(script, delay_s=0.0005), record=tmp_path / "c.jsonl") as wb:
        first = wb.ask("Fruit?").wait(20).approve().wait(20)
        second = wb.ask("And vegetables?", conversation_id=first).wait(20).approve().wait(20)
        number = next(step.number for step in second.steps if step.name == "create_artifact")
        return second.fork(number, decision=False).wait(20).seal(tmp_path / "fork.afrun")


def test_sealed_fork_comes_out_the_same_with_its_tools(sealed_fork: Path) -> None:
    """Outcome and prompts are equal, and the tools are not called."""

    @af.tool()
    async def look(ctx: af.ToolContext, word: str) -> str:
        """Look a word up."""
        raise AssertionError

    with af.open_run(sealed_fork) as run:
        found = run.verify(tools=[look])
    assert (found.is_same, found.differences, found.prompts) == (True, (), ())
    assert "came out the same" in repr(found)


def test_missing_tool_changes_prompts_only(sealed_fork: Path) -> None:
    """A placeholder with another description replaces the tool."""
    with af.open_run(sealed_fork) as run:
        found = run.verify()
    assert found.differences == ()
    assert any("-Look a word up." in difference for difference in found.prompts)
    assert "Prompts" in found._repr_html_()


def test_changed_artifact_tool_is_reported(sealed_fork: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def written(_ctx: object, _artifact: object) -> af.ToolResult:
        return af.ToolResult(success=True, data="Written!")

    monkeypatch.setattr("artifactflow_nb.tools.artifacts._result", written)
    with af.open_run(sealed_fork) as run:
        found = run.verify()
    assert not found.is_same
    assert any("Written!" in difference for difference in found.differences)


def test_missing_agent_is_named(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "counter.md").write_text("You count.", encoding="utf-8")
    turns = [delegate("counter", "Count."), "Three.", "Three it is."]
    model, prompts = ScriptedModel(turns), tmp_path / "prompts"
    with open_workbench(tmp_path, model=model, prompts=prompts, record=tmp_path / "c.jsonl") as wb:
        wb.register_agent(af.AgentConfig("counter", "Counts."))
        path = wb.ask("How many?").wait(20).seal(tmp_path / "run.afrun")
    with (
        af.open_run(path) as run,
        pytest.raises(af.errors.UsageError, match=r"'counter', which is not built in. Pass agents"),
    ):
        run.verify()


def test_agent_with_its_own_model_gets_recorded_replies(tmp_path: Path) -> None:
    """The agent's model is an object that the verification never calls."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "counter.md").write_text("You count.", encoding="utf-8")
    lead, own = ScriptedModel([delegate("counter", "Count."), "Three it is."]), ScriptedModel(["Three."])
    own.default_model = "own"
    agent, prompts = af.AgentConfig("counter", "Counts.", model=own), tmp_path / "prompts"
    with open_workbench(tmp_path, model=lead, prompts=prompts, record=tmp_path / "c.jsonl") as wb:
        wb.register_agent(agent)
        run = wb.ask("How many?").wait(20)
        assert run.response == "Three it is."
        path, reports = run.seal(tmp_path / "run.afrun"), [run.verify()]
    with af.open_run(path) as sealed:
        reports.append(sealed.verify(agents=[agent], prompts=prompts))
    assert [(report.differences, report.prompts) for report in reports] == [((), ())] * 2
    assert (len(lead.requests), len(own.requests)) == (2, 1)


# --- budgets, graphs and new runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("when_spent", ["stop", "ask"])
def test_run_with_a_cost_limit_verifies_without_prices(tmp_path: Path, when_spent: str) -> None:
    """The recorded costs are used, so that the limit is reached at the same call; a sealed file has no price list."""
    prices = {"scripted": {"input": 1000, "output": 1000}}
    budget = {"usd": 0.001, "when_spent": when_spent}
    turns = [report("One."), report("Two.", "other"), "Done."]
    policy = {"create_artifact": "approve"}
    with open_scene(
        tmp_path, model=ScriptedModel(turns), data_dir=tmp_path / "data", approvals=policy, prices=prices
    ) as wb:
        run = wb.ask("Q", budget=budget).wait(20)
        while run.pending:
            run.approve().wait(20)
        assert (run.status == "completed") == (when_spent == "ask")
        path = run.seal(tmp_path / "run.afrun")
        found = run.verify()
    assert (found.differences, found.prompts) == ((), ())
    with af.open_run(path) as sealed:
        assert sealed.verify().differences == ()


def test_run_after_a_run_of_an_adapted_graph_verifies(tmp_path: Path) -> None:
    """The run of the graph is not executed again, and the later run gets the message."""

    def setup(wb: af.Workbench) -> None:
        wb.register_flow("mine", af.adapt(prebuilt(ScriptedChat(script=[graph_reply("From the graph.")]), [])))

    model = ScriptedModel(lambda request: f"Answer after {len(request.messages)} messages.")
    with open_scene(tmp_path, model=model, data_dir=tmp_path / "data", setup=setup) as wb:
        first = wb.ask("One?", flow="mine").wait(20)
        path = wb.ask("Two?", conversation_id=first).wait(20).seal(tmp_path / "run.afrun")
    with af.open_run(path) as sealed:
        found = sealed.verify()
    assert (found.differences, found.prompts, found.skipped) == ((), (), (first.run_id,))


def test_run_that_was_not_recorded_is_reported(tmp_path: Path) -> None:
    """A subrun is started only in the verification."""
    model = test_replay_subrun_decisions.Researching({"X": 1}, {})
    with open_scene(tmp_path, model=model, record=tmp_path / "c", setup=with_look) as wb:
        _, run = test_replay_subrun_decisions.ask_for_research(Stage(wb, is_played=False))
        while run.pending:
            run.approve(run.pending[0].id).wait(20)
        tools = [entry for entry in wb._thread.engine.tools if entry.name == "look"]
        rows = recorded(run, wb._store)
    subrun = next(row["run_id"] for row in rows["runs"] if row["run_id"] != run.run_id)
    tables = {
        name: tuple(row for row in entries if row.get("run_id") != subrun) for name, entries in rows.tables.items()
    }
    found = verify(RunRows(rows.run_id, tables), tools=tools)
    assert any("the run was started with the question" in line and "not recorded" in line for line in found.differences)
