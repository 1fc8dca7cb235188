"""What scripted models say in tests: replies with calls, told apart by the agent that asks."""

from collections.abc import Iterable, Mapping
from typing import Any

from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import Script, Turn
from artifactflow_nb.xml_calls import format_call


def call(tool: str, /, **params: Any) -> str:
    return format_call(tool, params)


def report(content: str = "The report.", artifact_id: str = "research_report") -> str:
    return call("create_artifact", id=artifact_id, title="Report", content=content)


def delegate(agent: str, instruction: str) -> str:
    return call("call_subagent", agent_name=agent, instruction=instruction)


def who_asks(request: ModelRequest) -> str:
    """The agent whose prompt this is, by the words of its role."""
    system = request.messages[0].content
    for name in ("lead", "search", "reading"):
        if f"{name} agent" in system.split("</agent_role>")[0]:
            return name
    return "other"


def by_agent(**turns: Iterable[Turn]) -> Script:
    """A script with turns for each agent: `lead`, `search`, `reading`, `other`."""
    remaining: Mapping[str, Any] = {name: iter(replies) for name, replies in turns.items()}

    def next_turn(request: ModelRequest) -> Turn:
        return next(remaining[who_asks(request)])

    return next_turn
