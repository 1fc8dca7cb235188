"""Replies of scripted models, with calls, for each agent."""

from collections.abc import Iterable, Mapping
from typing import Any

from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.core.toolcalls.xml import format_call, parse_reply
from artifactflow_nb.models.base import ModelReply, ModelRequest
from artifactflow_nb.models.scripted import Script, ScriptedTurn, script_from_turns


def in_request_protocol(turns: Script | Iterable[ScriptedTurn]) -> Script:
    """A script with calls in the tool protocol of the request, from a script or from turns in order."""
    script = turns if callable(turns) else script_from_turns(turns)

    def next_turn(request: ModelRequest) -> ScriptedTurn:
        turn = script(request)
        if isinstance(turn, Exception | ModelReply) or request.tool_protocol == "xml":
            return turn
        parts = [turn] if isinstance(turn, str | ToolCall) else turn
        found: list[str | ToolCall] = []
        for part in parts:
            parsed = parse_reply(part) if isinstance(part, str) else None
            found += [part] if parsed is None or not parsed.calls else [parsed.text, *parsed.calls]
        return found

    return next_turn


def call(tool: str, /, **params: Any) -> str:
    return format_call(tool, params)


def report(content: str = "The report.", artifact_id: str = "research_report") -> str:
    return call("create_artifact", id=artifact_id, title="Report", content=content)


def delegate(agent: str, instruction: str) -> str:
    return call("call_subagent", agent_name=agent, instruction=instruction)


def requesting_agent(request: ModelRequest) -> str:
    """The agent of a request, found by the words of its role."""
    role = request.messages[0].content.split("</agent_role>")[0]
    return next((name for name, words in _ROLES.items() if words in role), "other")


_ROLES = {
    "lead": "lead agent",
    "search": "search agent",
    "reading": "reading agent",
    "agent": "You are the agent of",
    "executor": "execute one step",
    "replanner": "look at a plan",
    "summarizer": "summarize what a plan",
    "composer": "You write a document together",
    "writer": "You write one block",
    "editor": "You edit one block",
    "outliner": "You propose the structure",
    "grader": "You judge one block",
}


def plan(*titles: str, **more: Any) -> str:
    return call("plan_create", title="The plan", steps=[{"title": title} for title in titles], **more)


def decide(decision: str, reason: str = "Because.", **more: Any) -> str:
    return call("plan_decide", decision=decision, reason=reason, **more)


def by_agent(**turns: Iterable[ScriptedTurn]) -> Script:
    """A script with turns for each agent, by the names of `_ROLES`, or `other`."""
    remaining: Mapping[str, Any] = {name: iter(replies) for name, replies in turns.items()}

    def next_turn(request: ModelRequest) -> ScriptedTurn:
        return next(remaining[requesting_agent(request)])

    return next_turn
