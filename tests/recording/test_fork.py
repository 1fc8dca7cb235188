"""A fork copies the steps before a step and executes the other steps with a change."""

from pathlib import Path

import pytest
from recording import test_replay_plan
from recording.test_replay import ask
from support.recorded_scenes import assert_same, open_scene, open_workbench, rows, script, step_of
from support.replies import call, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel


def steps(run: af.Run) -> list[tuple[int, str, str, str]]:
    return [(step.number, step.path, step.kind, step.name) for step in run.steps]


def test_steps_of_a_run_are_numbered_by_their_start(tmp_path: Path) -> None:
    """Steps are model turns, tool calls and decisions."""
    with open_workbench(tmp_path, model=ScriptedModel(script)) as wb:
        run, _ = ask(wb)
        assert [step[0] for step in steps(run)] == list(range(1, 14))
        assert steps(run)[0] == (1, "main", "model", "scripted")
        assert steps(run)[-3:] == [
            (11, "main", "decision", "create_artifact"),
            (12, "main", "tool", "create_artifact"),
            (13, "main", "model", "scripted"),
        ]
        assert "waited for a decision on create" in run.steps._repr_html_()


@pytest.mark.parametrize("step", [1, 2, 6, 11, 12])
def test_copied_steps_cost_nothing(tmp_path: Path, step: int) -> None:
    """Copied steps call neither a model nor a tool, and all later steps are executed again."""
    model = ScriptedModel(script)
    price = {"scripted": {"input": 1.0, "output": 1.0}}
    with open_workbench(tmp_path, model=model, prices=price, approvals="approve") as wb:
        run = wb.ask("Fruit?").wait(20)
        n_requests, n_lookups = len(model.requests), len(wb.lookups)  # type: ignore[attr-defined]
        turns_before = sum(entry.kind == "model" for entry in run.steps[: step - 1])
        looks_before = sum(entry.name == "look" for entry in run.steps[: step - 1])
        fork = run.fork(step).wait(20)
        assert (fork.status, fork.response) == ("completed", run.response)
        assert len(model.requests) - n_requests == n_requests - turns_before
        assert len(wb.lookups) - n_lookups == n_lookups - looks_before  # type: ignore[attr-defined]
        calls = wb.llm_calls_df(run=fork)
        assert (calls["cassette"] == "hit").sum() == turns_before
        assert (calls.loc[calls["cassette"] == "hit", "cost_usd"] == 0).all()
        assert fork.artifacts["research_report"].content == run.artifacts["research_report"].content
        assert wb.messages_df()["n_siblings"].tolist() == [2, 2]


def test_fork_replaces_a_prompt(tmp_path: Path) -> None:
    """The agent gets the new instruction from the chosen turn on; earlier turns and other jobs are unchanged."""
    model = ScriptedModel(script)
    with open_workbench(tmp_path, model=model, approvals="approve") as wb:
        run = wb.ask("Fruit?").wait(20)
        number = next(step.number for step in run.steps if step.path != "main" and step.kind == "model")
        before = len(model.requests)
        fork = run.fork(number, prompt="plums").wait(20)
        assert fork.status == "completed"
        new = [request.messages for request in model.requests[before:]]
        assert any(messages[1].content == "plums" for messages in new)
        assert "plums" in wb.lookups  # type: ignore[attr-defined]
        assert fork.question == "Fruit?"


def test_fork_changes_a_model_a_result_and_a_decision(tmp_path: Path) -> None:
    """Each change takes effect at its step, and the model sees the new result."""

    def reply(request: ModelRequest) -> str:
        step = sum(message.role == "assistant" for message in request.messages)
        turns = [call("look", word="figs"), call("create_artifact", id="r", title="R", content="Figs."), "Done."]
        return turns[step] if step < 3 else "Done."

    class TwoModels(ScriptedModel):
        async def list_models(self) -> list[str]:
            return ["scripted", "scripted-2"]

    model = TwoModels(reply)
    with open_workbench(tmp_path, model=model) as wb:
        wb._thread.engine.register_tool(wb._thread.engine.tools.select(["look"])[0])
        run, _ = ask(wb)
        assert [entry[2] for entry in steps(run)] == ["model", "tool", "model", "decision", "tool", "model"]
        other = run.fork(2, tool_result="No figs today.").wait(20)
        assert "No figs today." in model.requests[-1].messages[-1].content
        other.approve().wait(20)
        denied = run.fork(4, decision=False).wait(20)
        assert denied.status == "completed"
        assert denied.artifacts == {}
        assert "Permission denied" in model.requests[-1].messages[-1].content
        again = run.fork(6, model="scripted-2").wait(20)
        assert model.requests[-1].model == "scripted-2"
        assert wb.llm_calls_df(run=again)["request_model"].tolist() == ["scripted", "scripted", "scripted-2"]


def test_fork_replaces_the_result_of_a_subagent(tmp_path: Path) -> None:
    """The job of the sub-agent is not executed, neither in the fork nor in its replay."""
    cassette, model = tmp_path / "c.jsonl", ScriptedModel(script)
    with open_workbench(tmp_path, model=model, approvals="approve", record=cassette) as wb:
        run = wb.ask("Fruit?").wait(20)
        fork = run.fork(2, tool_result="No apples.").wait(20)
        assert "No apples." in model.requests[-1].messages[-3].content
        assert [step.path for step in fork.steps if step.kind == "model"] == [
            "main",
            "main/1.2",
            "main/1.2",
            *["main"] * 2,
        ]
        recorded = rows(wb)
    with open_workbench(tmp_path, replay=cassette, approvals="approve") as wb:
        assert wb.ask("Fruit?").wait(20).fork(2, tool_result="No apples.").wait(20).error is None
        assert_same(rows(wb), recorded)


def test_result_replaces_a_call_that_never_started(tmp_path: Path) -> None:
    """A step of a plan waits for permission; a fork at its call keeps the state of the plan at the last event."""

    def answer(request: ModelRequest) -> str:
        is_send = requesting_agent(request) == "executor" and "Your step, 2 of 3" in request.messages[1].content
        return [call("send", to="Ada"), "Sent."][step_of(request)] if is_send else test_replay_plan.plan_script(request)

    model = ScriptedModel(answer)
    with open_scene(tmp_path, model=model, data_dir=tmp_path / "data", setup=test_replay_plan.with_tools) as wb:
        run = wb.ask("What?", flow="plan").wait(20)
        assert run.status == "waiting"
        number = next(step.number for step in run.steps if (step.kind, step.name) == ("tool", "send"))
        fork = run.fork(number, tool_result="Sent by hand.").wait(20)
        assert (fork.status, fork.error, run.status) == ("completed", None, "waiting")
        assert test_replay_plan.step_states(fork) == test_replay_plan.DONE
        assert [event.type for event in fork.events].count("plan_created") == 1
        assert any("Sent by hand." in request.messages[-1].content for request in model.requests)
        assert "Ada" not in wb.sent  # type: ignore[attr-defined]


def test_impossible_fork_lists_the_steps(tmp_path: Path) -> None:
    """The step does not exist, or the change does not fit its kind."""
    with open_workbench(tmp_path, model=ScriptedModel(["Yes."])) as wb:
        run = wb.ask("Sure?").wait(20)
        for step in (0, 2, True, "1"):
            with pytest.raises(af.errors.UsageError, match=r"1: lead_agent asked scripted"):
                run.fork(step)  # type: ignore[arg-type]
        with pytest.raises(af.errors.UsageError, match="tool_result changes a tool step, and step 1 is a model step"):
            run.fork(1, tool_result="x")


def test_fork_is_recorded_and_replayed(tmp_path: Path) -> None:
    """The cassette contains the fork as a separate run."""
    cassette = tmp_path / "c.jsonl"
    with open_workbench(tmp_path, model=ScriptedModel(script), record=cassette, approvals="approve") as wb:
        run = wb.ask("Fruit?").wait(20)
        run.fork(4, prompt="plums").wait(20)
        run.fork(4, prompt="plums").wait(20)
        recorded = rows(wb)
    with open_workbench(tmp_path, replay=cassette, approvals="approve") as wb:
        run = wb.ask("Fruit?").wait(20)
        assert run.fork(4, prompt="plums").wait(20).error is None
        assert run.fork(4, prompt="plums").wait(20).error is None
        assert_same(rows(wb), recorded)


def test_fork_continues_in_another_process(tmp_path: Path) -> None:
    """The change is stored with the fork, so a person can decide on a waiting fork in another process."""
    with open_workbench(tmp_path, model=ScriptedModel(script), approvals="approve", record=tmp_path / "c.jsonl") as wb:
        run = wb.ask("Fruit?").wait(20)
        number = next(step.number for step in run.steps if step.name == "create_artifact")
        run_id = run.run_id
    with open_workbench(tmp_path, model=ScriptedModel(script), record=tmp_path / "c.jsonl") as wb:
        fork = wb.run(run_id).fork(number).wait(20)
        assert fork.status == "waiting"
        fork_id = fork.run_id
    model = ScriptedModel(script)
    with open_workbench(tmp_path, model=model, record=tmp_path / "c.jsonl") as wb:
        assert wb.run(fork_id).approve().wait(20).status == "completed"
        assert len(model.requests) == 1


def test_plan_is_forked_at_the_start_of_each_job(tmp_path: Path) -> None:
    options = {"setup": test_replay_plan.with_tools, "graph_config": test_replay_plan.CONFIG}
    with open_scene(
        tmp_path, model=ScriptedModel(test_replay_plan.plan_script), data_dir=tmp_path / "data", **options
    ) as wb:
        run = test_replay_plan.planned(wb)
        model, steps = wb._thread.engine.model, list(run.steps)
        for step in (step for step in steps if step.kind == "model" and step.step == 1):
            n_requests = len(model.requests)
            fork = test_replay_plan.approve_all(run.fork(step.number))
            assert test_replay_plan.step_states(fork) == test_replay_plan.step_states(run)
            model_steps = [entry for entry in steps if entry.kind == "model" and entry.number >= step.number]
            assert len(model.requests) - n_requests == len(model_steps)
