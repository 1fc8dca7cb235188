"""Runs use the configuration of their agents, also when they are resumed, replayed or opened."""

from pathlib import Path
from typing import Any

import pytest
from conftest import OpenEngine
from package.test_reprs import check
from support.replies import by_agent, call, delegate, plan, report

import artifactflow_nb as af
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import ToolContext, tool

TWO_ROUNDS = {"lead_agent": {"max_tool_rounds": 2, "tools": ["look", "core"]}}


@tool(category="text")
async def look(ctx: ToolContext) -> str:
    """Look."""
    del ctx
    return "nothing"


def configured(config: Any, **more: Any) -> dict[str, Any]:
    return {"settings": {"graph_config": config, **more}}


async def test_research_agents_use_their_nodes(open_engine: OpenEngine) -> None:
    """Rounds, tools, model and temperature of an agent come from its node; other agents have the packaged values."""
    config = {
        "lead_agent": {"max_tool_rounds": 1, "tools": ["call_subagent", "read_artifact"], "temperature": 0},
        "search_agent": {"tools": ["core"], "model": "scripted", "max_tool_rounds": 1},
    }
    script = by_agent(
        lead=[delegate("search_agent", "Look."), "Done." + report()], search=[call("web_search", query="x"), "Found."]
    )
    engine = await open_engine(script, **configured(config))
    await engine.add_sources(__file__)
    result = await engine.controller.execute("Look.")
    model: Any = engine.model
    first, second, third, last = model.requests
    assert (result.status, result.response) == ("completed", "Done.")
    assert [spec.name for spec in first.tools] == ["call_subagent", "read_artifact"]
    assert (first.temperature, first.model, second.temperature, second.model) == (0, None, 0.5, "scripted")
    assert "call_subagent" not in [spec.name for spec in second.tools]
    assert {"web_search", "web_fetch", "create_artifact"} <= {spec.name for spec in second.tools}
    assert (third.tool_choice, last.tool_choice) == ("none", "none")
    assert "at most 1 rounds" in first.messages[0].content


async def test_precedence_of_models_and_temperatures(open_engine: OpenEngine) -> None:
    """`agent_models` override the model of a node.

    A node's temperature, also null, overrides the setting for all agents, which overrides packaged values.
    """
    config = {
        "lead_agent": {"model": "configured", "temperature": 0.1},
        "crawl_agent": {"model": "configured"},
        "search_agent": {"temperature": None},
    }
    engine = await open_engine(["Yes."], agent_models={"lead_agent": "mine"}, **configured(config, temperature=1.5))
    engine.register_agent(af.AgentConfig("clerk", "Looks.", prompt="search_agent", temperature=0.2))
    agents = engine.agents
    assert {name: agents[name].model_name for name in ("lead_agent", "crawl_agent", "search_agent")} == {
        "lead_agent": "mine",
        "crawl_agent": "configured",
        "search_agent": "scripted",
    }
    assert {
        name: agents[name].config.temperature for name in ("lead_agent", "crawl_agent", "search_agent", "clerk")
    } == {
        "lead_agent": 0.1,
        "crawl_agent": 1.5,
        "search_agent": None,
        "clerk": 1.5,
    }


async def test_registered_tools_are_offered_to_configured_agents(open_engine: OpenEngine) -> None:
    """Tools are selected by name, category or `all`, in the configured order; tools that code offers come last."""
    config = {
        "lead_agent": {"tools": ["look", "call_subagent"]},
        "search_agent": {"tools": ["text", "web_search"]},
        "crawl_agent": {"tools": ["all"]},
    }
    engine = await open_engine(["Yes."], **configured(config))
    engine.register_agent(af.AgentConfig("clerk", "Looks.", prompt="search_agent", required_tools=("all",)))
    engine.register_tool(look)
    names = {name: agent.tool_names for name, agent in engine.agents.items()}
    assert names["lead_agent"] == ("look", "call_subagent")
    assert names["search_agent"] == ("look", "web_search")
    assert names["crawl_agent"] == names["clerk"]
    assert names["clerk"][-1] == "look"
    assert "call_subagent" not in names["clerk"]
    engine.register_tool(tool(name="peek")(look.handler), agent="search_agent")
    assert engine.agents["search_agent"].tool_names == ("look", "web_search", "peek")
    assert "look" in engine.agents["crawl_agent"].build_complete_system_prompt(_context(engine))


def str_of(value: Any) -> list[str]:
    return value._card().plain().splitlines()


def _context(engine: Any) -> Any:
    from artifactflow_nb.agents.base import PromptContext

    return PromptContext(engine.clock.now())


async def test_unknown_configured_tool_is_an_error_at_the_start_of_a_run(open_engine: OpenEngine) -> None:
    """Tools are registered after the workbench is created, so a misspelt name is reported at the start of a run."""
    engine = await open_engine(["Yes."], **configured({"search_agent": {"tools": ["mcp", "lok"]}}))
    engine.register_tool(look)
    with pytest.raises(UsageError, match=r"agent 'search_agent' are invalid: There is no tool 'lok'.*look.*mcp"):
        await engine.controller.execute("Look.")


@pytest.mark.parametrize(
    ("agent", "tool_name", "message"),
    [
        ("crawl_agent", "call_subagent", "only the lead can delegate"),
        ("executor", "call_subagent", "only the lead can delegate"),
        ("executor", "plan_create", "the plan flow gives this tool to agent alone"),
        ("lead_agent", "plan_create", "the plan flow gives this tool to agent alone"),
        ("agent", "report_failure", "the plan flow gives this tool to executor alone"),
        ("search_agent", "plan_decide", "the plan flow gives this tool to replanner alone"),
    ],
)
async def test_tool_of_another_flow_cannot_be_configured(
    open_engine: OpenEngine, agent: str, tool_name: str, message: str
) -> None:
    """A tool of another flow is an error of the configuration; the tool is not ignored."""
    with pytest.raises(UsageError, match=f"'{agent}' is configured with {tool_name}: {message}. Remove it."):
        await open_engine(["Yes."], **configured({agent: {"tools": [tool_name]}}))


@pytest.mark.parametrize("spec", ["plan", "nope"])
async def test_error_for_an_unknown_tool_lists_only_available_tools(open_engine: OpenEngine, spec: str) -> None:
    """The category `plan` is unknown in the research flow, too."""
    engine = await open_engine(["Yes."], **configured({"executor": {"tools": [spec]}}))
    with pytest.raises(UsageError, match=f"agent 'executor' are invalid: There is no tool '{spec}'") as refused:
        await engine.controller.execute("Look.")
    for name in ("plan_create", "plan_decide", "report_failure", "call_subagent", " plan"):
        assert name not in str(refused.value).partition("Known: ")[2]


@pytest.mark.parametrize("name", ["agent", "executor", "replanner", "summarizer", "lead_agent", "search_agent"])
async def test_built_in_agent_cannot_be_replaced(open_engine: OpenEngine, name: str) -> None:
    """A registered agent with the name of a built-in agent is an error, and nothing is changed."""
    engine = await open_engine(["Yes."])
    before, subagents = engine.agents[name], engine.lead.subagents
    with pytest.raises(UsageError, match="hoose another name"):
        engine.register_agent(af.AgentConfig(name, "Is another.", prompt="search_agent"))
    assert engine.agents[name] is before
    assert engine.lead.subagents == subagents


async def test_planning_agents_know_the_tools_of_steps(open_engine: OpenEngine) -> None:
    """The prompts of agent and replanner list the current tools of the executor, not the tools of the agent itself."""
    engine = await open_engine(["Done."], **configured({"executor": {"tools": ["web_fetch", "text"]}}))
    for names in ("web_fetch", "web_fetch, look"):
        for agent in ("agent", "replanner"):
            assert f"Steps can use: {names}." in engine.agents[agent].build_complete_system_prompt(_context(engine))
        engine.register_tool(look)
    await engine.controller.execute("What is to be done?", flow="plan")
    model: Any = engine.model
    assert "Steps can use: web_fetch, look." in model.requests[0].messages[0].content
    other = await open_engine(["Done."], folder=engine.folder / "b", **configured({"executor": {"tools": []}}))
    assert "Steps can use: no tools." in other.agents["agent"].build_complete_system_prompt(_context(other))


async def test_disabled_planner_offers_no_plan_tools(open_engine: OpenEngine) -> None:
    """With `planner.enabled` false the prompt does not mention `plan_create`, and such a call is refused."""
    for is_enabled in (True, False):
        turns = [plan("One"), "Done."] if not is_enabled else ["Done."]
        engine = await open_engine(turns, **configured({"planner": {"enabled": is_enabled}}))
        result = await engine.controller.execute("What is to be done?", flow="plan")
        model: Any = engine.model
        first, last = model.requests[0], model.requests[-1].messages[-1].content
        assert (result.status, result.response) == ("completed", "Done.")
        assert ("plan_create" in [spec.name for spec in first.tools]) is is_enabled
        assert ("plan_create" in first.messages[0].content) is is_enabled
        assert ("You have no tool 'plan_create'" in last) is not is_enabled


async def test_resumed_run_keeps_its_configuration(open_engine: OpenEngine) -> None:
    """An engine with another configuration gives the run the rounds and tools of its start."""
    script = [call("look") + report(), "Still." + call("look"), "Over." + call("look")]
    first = await open_engine(script[:1], approvals={"create_artifact": "ask"}, **configured(TWO_ROUNDS))
    first.register_tool(look, agent="crawl_agent")
    waiting = await first.controller.execute("Look.")
    assert waiting.status == "waiting"
    await first.aclose()
    other = await open_engine(script[1:], **configured({"lead_agent": {"max_tool_rounds": 50, "tools": []}}))
    decided = {waiting.pending[0].id: True}
    with pytest.raises(UsageError, match=r"cannot continue here with its settings.*no tool 'look'"):
        await other.controller.resume(waiting.thread_id, waiting.message_id, decided)
    other.register_tool(look, agent="crawl_agent")
    done = await other.controller.resume(waiting.thread_id, waiting.message_id, decided)
    assert (done.status, done.response) == ("completed", "Over.")
    model: Any = other.model
    assert [request.tool_choice for request in model.requests] == ["auto", "none"]
    assert model.requests[0].tools[0].name == "look"


def test_a_replay_needs_no_configuration(tmp_path: Path) -> None:
    """The recording contains the configuration, so the configuration of the replaying workbench has no effect."""
    cassette = tmp_path / "runs.jsonl"
    turns = [call("look"), "Still." + call("look"), "Over." + call("look")]
    with af.Workbench(
        model=ScriptedModel(turns), record=cassette, data_dir=tmp_path / "data", graph_config=TWO_ROUNDS
    ) as wb:
        wb.tool(look)
        recorded = wb.ask("Look.").wait(20)
        assert (recorded.response, recorded.manifest["graph_config"]["lead_agent.max_tool_rounds"]) == ("Over.", 2)
        sealed = recorded.seal(tmp_path / "run.afrun")
    for config in (None, {"lead_agent": {"max_tool_rounds": 1}, "executor": {"max_steps": 3}}):
        with af.Workbench(replay=cassette, graph_config=config) as wb:
            wb.tool(look)
            run = wb.ask("Look.").wait(20)
            assert (run.status, run.response) == ("completed", "Over.")
            assert run.events == recorded.events
    with af.open_run(sealed) as opened:
        report = opened.verify(tools=[look])
    assert (report.is_same, report.prompts) == (True, ())


def test_card_names_the_source_of_the_configuration(tmp_path: Path) -> None:
    """The card names the file and the changed values; the configuration itself shows every value."""
    path = tmp_path / "my.yaml"
    path.write_text("executor:\n  max_steps: 4\n")
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "a", graph_config=path) as wb:
        assert "graph config      my.yaml (executor.max_steps 4)\n" in wb._card().plain()
        assert repr(wb.graph_config) == "GraphConfig(my.yaml: executor.max_steps=4)"
        assert ["executor.max_steps", "4", "8"] in [line.split() for line in str_of(wb.graph_config)]
        check(wb.graph_config)
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "b") as wb:
        assert "graph config      packaged\n" in wb._card().plain()
