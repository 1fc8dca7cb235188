"""A minimal agent loop with sub-agents as nested loops, to drive the offline model."""

from dataclasses import dataclass, field, replace

from artifactflow_nb.core.messages import Message, ToolResult, ToolSpec
from artifactflow_nb.models.base import Model, ModelContext, ModelReply, ModelRequest
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.tools.base import Tool, ToolContext
from artifactflow_nb.tools.web.scoring import LocalSearch
from artifactflow_nb.tools.web.tools import SearchProvider, web_fetch, web_search

ARTIFACT_TOOLS = ("create_artifact", "update_artifact", "rewrite_artifact", "read_artifact")
SUBAGENTS: dict[str, tuple[Tool, int]] = {"search_agent": (web_search, 3), "crawl_agent": (web_fetch, 2)}
LEAD_ROUNDS = 5


@dataclass
class Drive:
    """One conversation's artifacts and tools.

    Attributes:
        refuse: The errors of tools, by `tool` or `tool:artifact`.
        lists_artifacts: Whether prompts list the artifacts of the conversation.
    """

    model: Model
    sources: SourceManager
    scope: list[str] | None = None
    refuse: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)
    lists_artifacts: bool = True
    rounds: int = 0
    failed: list[str] = field(default_factory=list)

    async def ask(self, question: str, history: tuple[Message, ...] = ()) -> str:
        specs = tuple(ToolSpec(name, name, {}) for name in (*ARTIFACT_TOOLS, "call_subagent"))
        earlier = [message.content for message in history if message.role == "user"]
        context = ModelContext(question, question, earlier[-1] if earlier else "")
        return await self.loop(context, specs, LEAD_ROUNDS)

    async def loop(self, context: ModelContext, specs: tuple[ToolSpec, ...], limit: int) -> str:
        for round_ in range(limit + 1):
            offered = specs if round_ < limit else ()
            reply = await self.turn(context, offered)
            if not reply.calls:
                return reply.content
            assert offered, "a turn without tools must not call any"
            self.rounds += 1
            results = [(call, await self._run(call.name, dict(call.params))) for call in reply.calls]
            self.failed += [call.name for call, result in results if not result.success]
            context = replace(context, calls=(*context.calls, *results))
        raise AssertionError("the model did not conclude")

    async def turn(self, context: ModelContext, offered: tuple[ToolSpec, ...]) -> ModelReply:
        context = replace(context, artifact_ids=frozenset(self.artifacts if self.lists_artifacts else ()))
        request = ModelRequest((Message("user", "Do your task."),), offered, context=context)
        events = [event async for event in self.model.stream(request)]
        assert isinstance(events[-1], ModelReply)
        return events[-1]

    async def _run(self, name: str, params: dict[str, str]) -> ToolResult:
        for key in (name, f"{name}:{params.get('id', params.get('agent_name'))}"):
            if key in self.refuse:
                return ToolResult(success=False, error=self.refuse[key])
        if name == "call_subagent":
            tool, limit = SUBAGENTS[params["agent_name"]]
            return ToolResult(True, await self.loop(ModelContext("", params["instruction"]), (tool.spec,), limit))
        if name in {"web_search", "web_fetch"}:
            services = {SourceManager: self.sources, SearchProvider: LocalSearch(self.sources, self.scope)}
            context = ToolContext("run-1", "conv-1", "msg-1", "agent", "call-1", services)
            return await {"web_search": web_search, "web_fetch": web_fetch}[name].run(context, params)
        # The plan belongs to its turn, every other artifact to the conversation.
        if name == "create_artifact" and params["id"] in self.artifacts and params["id"] != "task_plan":
            return ToolResult(success=False, error="Impossible.", metadata={"error_type": "Conflict"})
        assert name in {"create_artifact", "rewrite_artifact"}
        self.artifacts[params["id"]] = params["content"]
        return ToolResult(success=True, data="Written.")
