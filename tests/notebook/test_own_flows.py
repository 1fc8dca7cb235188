"""Flows of a user, which a workbench gets as `FlowSpec`s."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flows.base import FlowAgent, FlowSpec
from artifactflow_nb.flows.loop import job_loop


@af.tool(permission="confirm", category="translate", idempotent=True)
def look_up_term(ctx: af.ToolContext, term: Annotated[str, "The term."]) -> str:
    """Look up a term in the glossary."""
    return {"branch": "Zweig"}.get(term, "not in the glossary")


TRANSLATOR = af.AgentConfig("translator", "Translates a text.", prompt="You translate into German.", max_tool_rounds=2)
TRANSLATE = FlowSpec(
    "translate",
    job_loop,
    (FlowAgent(TRANSLATOR, tools=(look_up_term,)),),
    depths={"quick": {"translator": {"max_tool_rounds": 1}}, "deep": {}},
)
TURNS = (call("look_up_term", term="branch"), "der Zweig")


def translated(wb: af.Workbench) -> af.Run:
    """A run of the flow that looked up a term with the person's approval."""
    run = wb.ask("the branch", flow="translate").wait(10)
    assert [request.tool for request in run.pending] == ["look_up_term"]
    run.approve().wait(10)
    assert run.response == "der Zweig"
    return run


def test_own_flow_can_be_asked_and_configured(workbench: Any) -> None:
    """Agents of the flow have nodes in the graph configuration, and runs have the depths of the flow."""
    wb = workbench((*TURNS, *TURNS), flows=[TRANSLATE], graph_config={"translator": {"temperature": 0.1}})
    assert wb.flows == ("research", "plan", "compose", "judge", "translate")
    assert wb.tool_calls_df(translated(wb))["success"].tolist() == [True]
    assert wb.graph_config.translator.max_tool_rounds == 2
    assert wb.graph_config.translator.temperature == 0.1
    quick = wb.ask("the branch", flow="translate", depth="quick").wait(10)
    assert quick.manifest["agents"]["translator"]["tools"] == ["look_up_term"]
    quick.approve().wait(10)
    assert "1 round" in wb._thread.engine.model.requests[-1].messages[-1].content


def test_other_workbench_continues_a_run_only_with_its_flow(workbench: Any) -> None:
    wb = workbench(TURNS[:1], flows=[TRANSLATE])
    run_id = wb.ask("the branch", flow="translate").wait(10).run_id
    wb.close()
    wb = workbench(TURNS[1:])
    with pytest.raises(UsageError, match=r"'translate' of the run .* is not available here\. .*Workbench\(flows="):
        wb.run(run_id).approve()
    wb.close()
    wb = workbench(TURNS[1:], flows=[TRANSLATE])
    assert wb.run(run_id).approve().wait(10).response == "der Zweig"


def test_run_of_an_own_flow_is_verified_sealed_and_replayed(workbench: Any, tmp_path: Path) -> None:
    """A sealed run needs the flow to be verified."""
    wb = workbench(TURNS, flows=[TRANSLATE], record=tmp_path / "x.jsonl")
    run = translated(wb)
    report = run.verify()
    assert (report.differences, report.prompts) == ((), ())
    sealed_path = run.seal(tmp_path / "run.afrun")
    with af.open_run(sealed_path) as sealed:
        assert sealed.verify(flows=[TRANSLATE]).differences == ()
        with pytest.raises(UsageError, match=r"has the flow 'translate', which is not built in\. Pass flows="):
            sealed.verify()
    wb.close()
    with af.Workbench(replay=tmp_path / "x.jsonl", flows=[TRANSLATE], approvals="ask", interactive=False) as wb:
        translated(wb)


def test_tool_of_an_agent_is_for_this_agent_alone(workbench: Any) -> None:
    """A tool of the flow is for agents of the flow that name the tool, and not for all agents."""
    proofreader = FlowAgent(replace(TRANSLATOR, name="proofreader", required_tools=("look_up_term",)))
    with pytest.raises(UsageError, match="the translate flow gives this tool to translator alone"):
        workbench(flows=[replace(TRANSLATE, agents=(*TRANSLATE.agents, proofreader))])
    shared = FlowSpec("translate", job_loop, (FlowAgent(TRANSLATOR), proofreader), tools=(look_up_term,))
    agents = workbench(flows=[shared])._thread.engine.agents
    assert [agents[name].tool_names for name in ("translator", "proofreader")] == [(), ("look_up_term",)]
    assert "look_up_term" not in agents["agent"].tool_names


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ("translate", "flows has the str 'translate'; each must be a FlowSpec"),
        (replace(TRANSLATE, name="research"), "'research' cannot be added: the name 'research' is in use"),
        (replace(TRANSLATE, agents=(FlowAgent(replace(TRANSLATOR, name="executor")),)), "'executor' is in use"),
        (replace(TRANSLATE, tools=(replace(look_up_term, name="web_fetch"),)), "A tool 'web_fetch' is built in"),
    ],
)
def test_flow_with_a_used_name_is_refused(workbench: Any, flow: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        workbench(flows=[flow])


def test_flow_spec_in_place_of_a_graph_is_refused_with_advice(workbench: Any) -> None:
    wb = workbench()
    for use in (lambda: wb.ask("the branch", flow=TRANSLATE), lambda: wb.register_flow("mine", TRANSLATE)):
        with pytest.raises(UsageError, match=r"a FlowSpec is neither\. Pass it to af\.Workbench\(flows="):
            use()
