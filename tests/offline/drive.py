"""A run in small: the agent loop around a model, with sub-agents as nested loops. Enough to drive the offline model."""

from dataclasses import dataclass, field

from artifactflow_nb.messages import Message, ToolResult, ToolSpec
from artifactflow_nb.models.base import Model, ModelReply, ModelRequest
from artifactflow_nb.store.sources import SourceManager
from artifactflow_nb.tools.base import Tool, ToolContext
from artifactflow_nb.tools.web import LocalSearch, SearchProvider, web_fetch, web_search
from artifactflow_nb.xml_calls import format_results, parse_reply

ARTIFACT_TOOLS = ("create_artifact", "update_artifact", "rewrite_artifact", "read_artifact")
SUBAGENTS: dict[str, tuple[Tool, int]] = {"search_agent": (web_search, 3), "crawl_agent": (web_fetch, 2)}
LEAD_ROUNDS = 5


@dataclass
class Drive:
    """One conversation's artifacts and tools; `refuse` maps a tool, or `tool:artifact`, to the error that it gives."""

    model: Model
    sources: SourceManager
    scope: list[str] | None = None
    refuse: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)
    rounds: int = 0
    failed: list[str] = field(default_factory=list)

    async def ask(self, question: str, history: tuple[Message, ...] = ()) -> str:
        specs = tuple(ToolSpec(name, name, {}) for name in (*ARTIFACT_TOOLS, "call_subagent"))
        return await self._loop([*history, Message("user", question)], specs, LEAD_ROUNDS)

    async def _loop(self, talk: list[Message], specs: tuple[ToolSpec, ...], limit: int) -> str:
        for round_ in range(limit + 1):
            offered = specs if round_ < limit else ()
            reply = await self.turn(talk, offered)
            parsed = parse_reply(reply)
            if not parsed.calls:
                return parsed.text
            assert offered, "a turn without tools must not call any"
            self.rounds += 1
            results = [(call.name, await self._run(call.name, dict(call.params))) for call in parsed.calls]
            self.failed += [name for name, result in results if not result.success]
            talk = [*talk, Message("assistant", reply), Message("tool", format_results(results))]
        raise AssertionError("the model did not conclude")

    async def turn(self, talk: list[Message], offered: tuple[ToolSpec, ...]) -> str:
        listed = "\n".join(f"- {name} (version 1): A title" for name in self.artifacts) or "none yet"
        context = f"<current_context>\n\nArtifacts of this conversation:\n{listed}\n\n</current_context>"
        request = ModelRequest((Message("system", context), *talk), offered)
        events = [event async for event in self.model.stream(request)]
        assert isinstance(events[-1], ModelReply)
        return events[-1].content

    async def _run(self, name: str, params: dict[str, str]) -> ToolResult:
        for key in (name, f"{name}:{params.get('id', params.get('agent_name'))}"):
            if key in self.refuse:
                return ToolResult(success=False, error=self.refuse[key])
        if name == "call_subagent":
            tool, limit = SUBAGENTS[params["agent_name"]]
            return ToolResult(True, await self._loop([Message("user", params["instruction"])], (tool.spec,), limit))
        if name in {"web_search", "web_fetch"}:
            services = {SourceManager: self.sources, SearchProvider: LocalSearch(self.sources, self.scope)}
            context = ToolContext("run-1", "conv-1", "msg-1", "agent", "call-1", services)
            return await {"web_search": web_search, "web_fetch": web_fetch}[name].run(context, params)
        # The plan belongs to its turn, every other artifact to the conversation.
        if name == "create_artifact" and params["id"] in self.artifacts and params["id"] != "task_plan":
            return ToolResult(success=False, error=f"The artifact {params['id']!r} exists already.")
        assert name in {"create_artifact", "rewrite_artifact"}
        self.artifacts[params["id"]] = params["content"]
        return ToolResult(success=True, data="Written.")
