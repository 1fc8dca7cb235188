"""Round limits of any size end a loop with an answer."""

from itertools import repeat
from typing import Any

from conftest import OpenEngine
from support.replies import by_agent, call, delegate

from artifactflow_nb.agents.base import AgentConfig
from artifactflow_nb.tools.base import ToolContext, tool

MANY = 520
"""More rounds than a thousand steps of a graph allow: a round is two steps at least."""


@tool
async def look(ctx: ToolContext) -> str:
    """Look."""
    del ctx
    return "nothing"


async def test_high_round_limit_ends_in_an_answer(open_engine: OpenEngine) -> None:
    """An agent that always calls tools uses all rounds and then answers."""
    engine = await open_engine(
        lambda _request: "Still looking." + call("look"),
        settings={"graph_config": {"lead_agent": {"max_tool_rounds": MANY}}},
    )
    engine.register_tool(look)
    result = await engine.controller.execute("Go on for ever.")
    assert (result.status, result.response) == ("completed", "Still looking.")
    assert len(result.metrics.tool_calls) == MANY


async def test_round_limit_of_a_sub_agent_ends_in_its_answer(open_engine: OpenEngine) -> None:
    """A job that always calls tools has its own agent's rounds and then reports back."""
    script = by_agent(lead=[delegate("clerk", "Look."), "Done."], search=repeat("Still looking." + call("look")))
    engine = await open_engine(script)
    engine.register_agent(AgentConfig("clerk", "Looks.", prompt="search_agent", max_tool_rounds=MANY))
    engine.register_tool(look, agent="clerk")
    result = await engine.controller.execute("Have it looked for.")
    assert (result.status, result.response) == ("completed", "Done.")
    model: Any = engine.model
    assert "Still looking." in model.requests[-1].messages[-1].content
    assert len(result.metrics.tool_calls) == MANY + 1


async def test_many_calls_of_one_reply_run_in_order(open_engine: OpenEngine) -> None:
    """A reply may have very many calls."""
    engine = await open_engine(["".join(call("look") for _ in range(MANY)), "Done."])
    engine.register_tool(look)
    result = await engine.controller.execute("Look often.")
    assert (result.status, len(result.metrics.tool_calls)) == ("completed", MANY)
