"""What a workbench takes of a user's own: tools, agents and graphs; and the models that it can ask."""

from collections.abc import Callable
from typing import Any

from artifactflow_nb.agents.base import AgentConfig
from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.flows.adapted import AdaptedGraph
from artifactflow_nb.tools.base import Tool, tool


class WithOwnParts:
    """The part of a workbench to which parts are added."""

    _thread: EngineThread

    def models(self) -> list[str]:
        """The names of the models that the endpoint offers, for `model=`, `AF_MODEL` and `agent_models`."""
        return self._thread.call(self._thread.engine.list_models())

    def register_tool(self, entry: Tool, *, agent: str | None = None) -> None:
        """Add a tool, made with `af.tool`, and offer it to an agent: the lead, or the one that is named."""
        self._thread.engine.register_tool(entry, agent=agent)

    def tool(
        self, handler: Callable[..., Any] | None = None, /, *, agent: str | None = None, **options: Any
    ) -> Tool | Callable[[Callable[..., Any]], Tool]:
        """Make a tool of a typed function and offer it to an agent: `@wb.tool`, or `@wb.tool(permission="confirm")`.

        Args:
            handler: The function; see `af.tool` for what it has to have.
            agent: The agent that may call it; None for the lead.
            options: As for `af.tool`: `name`, `permission`, `category`, `idempotent`, `timeout_s` and so on.

        Errors: `UsageError` as for `af.tool` and `register_tool`.
        """

        def make(handler: Callable[..., Any]) -> Tool:
            entry = tool(**options)(handler)
            self.register_tool(entry, agent=agent)
            return entry

        return make if handler is None else make(handler)

    def register_agent(self, config: AgentConfig) -> None:
        """Add an agent that the lead can delegate to; its prompt is `<name>.md` in the folder passed as `prompts`."""
        self._thread.engine.register_agent(config)

    def register_flow(self, name: str, flow: AdaptedGraph) -> str:
        """Add a graph of your own, made with `af.adapt`, as a flow for `ask`; its name.

        It takes the place of a graph that was registered by this name: new runs get it, and those asked anew. A run
        that is not over goes on with the graph that it was begun with; in a new kernel, with the one of this name.

        Errors: `UsageError` for something else, or the name of a built-in flow.
        """
        self._thread.engine.flows.register(name, flow)
        return name
