"""A model that is chosen for one run: the agents that use it, and what is stored."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.chat_endpoint import Answer, ChatServer
from support.replies import call, delegate

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.models.scripted import ScriptedModel


def test_object_that_is_no_model_is_refused_with_its_missing_members() -> None:
    """Chat models of other libraries have a method `stream` too."""

    class Other:
        def stream(self) -> None:
            """Stream something."""

    for arguments in ({"model": Other()}, {"agent_models": {"search_agent": Other()}}):
        with pytest.raises(
            af.errors.UsageError, match="is not a model: it has no provider, tool_protocols, default_model"
        ):
            af.Workbench(**arguments)


def test_chosen_model_applies_to_one_run(tmp_path: Path) -> None:
    """The calls and rows of the run name the chosen model; the next run uses the configured model."""
    with (
        ChatServer([Answer("One."), Answer("Two.")]) as server,
        af.Workbench(model="usual", base_url=server.base_url, data_dir=tmp_path / "data") as wb,
    ):
        first = wb.ask("One?", model="larger").wait(10)
        wb.ask("Two?").wait(10)
        assert [request.body["model"] for request in server.requests] == ["larger", "usual"]
        assert wb.llm_calls_df()["request_model"].tolist() == ["larger", "usual"]
        assert next(event for event in first.events if event.type == "agent_start").data["model"] == "larger"
        assert wb.models(ask_endpoint=False)[0] == "usual"
        assert "larger" in wb.models(ask_endpoint=False)


def test_offline_model_of_earlier_runs_is_never_a_name_for_an_endpoint(tmp_path: Path) -> None:
    """An endpoint gets no question for the offline model, and the name `offline` is not among the choices."""
    where = {"data_dir": tmp_path / "data", "interactive": False}
    with af.Workbench(**where) as wb:
        wb.ask("What is a tuple?").wait(20)
        assert wb.models(ask_endpoint=False) == ["offline-extractive"]
    with ChatServer([]) as server, af.Workbench(model="usual", base_url=server.base_url, **where) as wb:
        assert "offline-extractive" not in wb.models(ask_endpoint=False)
        with pytest.raises(af.errors.UsageError, match="send the question to http://.*Ask in another workbench"):
            wb.ask("What is a tuple?", model="offline-extractive")
        assert server.requests == []


def test_agent_with_its_own_model_ignores_the_chosen_model(tmp_path: Path) -> None:
    """The chosen model replaces only the configured model."""
    answers = [Answer(delegate("search_agent", "Search.")), Answer("Found."), Answer("Done.")]
    with (
        ChatServer(answers) as server,
        af.Workbench(
            model="usual", base_url=server.base_url, agent_models={"search_agent": "small"}, data_dir=tmp_path / "data"
        ) as wb,
    ):
        assert wb.ask("What?", model="larger").wait(10).response == "Done."
        assert [request.body["model"] for request in server.requests] == ["larger", "small", "larger"]


def test_resumed_run_keeps_its_model(tmp_path: Path) -> None:
    """Another workbench continues a waiting run with the same model."""
    asks = {"create_artifact": "ask"}
    answers = [Answer(call("create_artifact", id="a", title="A", content="A.")), Answer("Done.")]
    with ChatServer(answers) as server:
        where = {"model": "usual", "base_url": server.base_url, "data_dir": tmp_path / "data", "approvals": asks}
        with af.Workbench(**where) as wb:
            run = wb.ask("What?", model="larger").wait(10)
            assert run.status == "waiting"
        with af.Workbench(**where) as later:
            assert later.run(run.run_id).approve().wait(10).response == "Done."
        assert [request.body["model"] for request in server.requests] == ["larger", "larger"]


def test_unusable_model_name_is_an_error(tmp_path: Path) -> None:
    """A name is refused if it is empty, if it is unknown offline, or if it has no price under a cost limit."""
    with af.Workbench(model=ScriptedModel(["Hello."]), data_dir=tmp_path / "data") as wb:
        with pytest.raises(af.errors.UsageError, match="no model 'larger'. Known: scripted"):
            wb.ask("Hello?", model="larger")
        with pytest.raises(af.errors.UsageError, match="model is ' '; for one run it must be a model's name"):
            wb.ask("Hello?", model=" ")
        assert wb.ask("Hello?", model="scripted").wait(10).response == "Hello."
    with (
        ChatServer([]) as server,
        af.Workbench(
            model="m", base_url=server.base_url, prices={"m": {"input": 1, "output": 1}}, data_dir=tmp_path / "data"
        ) as priced,
        pytest.raises(af.errors.UsageError, match="no price for the model 'larger'"),
    ):
        priced.ask("Hello?", model="larger", budget={"usd": 1})


def test_run_continues_only_with_the_model_of_its_start(tmp_path: Path) -> None:
    """A workbench without the model refuses the decision and the resume; nothing is stored or requested."""
    options = {"data_dir": tmp_path / "data", "approvals": {"create_artifact": "ask"}}
    answers = [Answer(call("create_artifact", id="a", title="A", content="A.")), Answer("Done.")]
    with ChatServer(answers) as server:
        with af.Workbench(model="usual", base_url=server.base_url, **options) as wb:
            run_id = wb.ask("What?", model="larger").wait(10).run_id
        with af.Workbench(model=ScriptedModel(["Not me."]), **options) as other:
            for act in (other.run(run_id).approve, other.run(run_id).deny):
                with pytest.raises(
                    af.errors.UsageError, match=f"{run_id} cannot continue here .* no model 'larger'. Known"
                ):
                    act()
            assert len(other.pending()) == 1
            engine = other._thread.engine
            other._thread.call(
                engine.approvals.decide({other.pending()[0].id: Decision(approved=True)}, datetime.now(UTC))
            )
            with pytest.raises(af.errors.UsageError, match="no model 'larger'.* cancel the run and ask again"):
                other.run(run_id).resume()
            assert other.run(run_id).status == "abandoned"
        with af.Workbench(model="usual", base_url=server.base_url, **options) as later:
            assert later.run(run_id).resume().wait(10).response == "Done."


def test_run_with_a_cost_limit_continues_only_with_prices(tmp_path: Path) -> None:
    """A workbench without prices would never reach the limit and refuses to continue; cancelling is possible."""
    options = {"data_dir": tmp_path / "data", "approvals": {"create_artifact": "ask"}}
    answers = [Answer(call("create_artifact", id="a", title="A", content="A."))]
    with ChatServer(answers) as server:
        where = {"model": "m", "base_url": server.base_url, **options}
        with af.Workbench(**where, prices={"m": {"input": 1, "output": 1}}) as wb:
            run_id = wb.ask("What?", budget={"usd": 1}).wait(10).run_id
        with af.Workbench(**where) as later:
            with pytest.raises(
                af.errors.UsageError, match=f"{run_id} cannot continue here .* no price for the model 'm'"
            ):
                later.run(run_id).approve()
            assert later.run(run_id).cancel().status == "cancelled"


def test_sibling_keeps_model_and_budget(tmp_path: Path) -> None:
    """A regenerated or edited question uses the model and budget of the earlier run, unless others are passed."""
    with (
        ChatServer([Answer("One."), Answer("Two."), Answer("Three.")]) as server,
        af.Workbench(model="usual", base_url=server.base_url, data_dir=tmp_path / "data") as wb,
    ):
        first = wb.ask("One?", model="larger", budget=af.Budget(tokens=5)).wait(10)
        again = wb.conversation(first).regenerate()
        assert again.wait(10).status == "completed"  # checked before a call: the first one is made
        wb.conversation(first).edit("Uno?", model="usual").wait(10)
        assert [request.body["model"] for request in server.requests] == ["larger", "larger", "usual"]
        runs = wb._thread.engine.runs
        budgets = [wb._thread.call(runs.get(run_id)).settings.get("budget") for run_id in wb.runs_df()["run_id"]]
        assert budgets == [budgets[0]] * 3
        assert budgets[0]["tokens"] == 5
