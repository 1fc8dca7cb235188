"""A LangGraph graph of a user's own, as a flow of the workbench: `af.adapt(graph)`.

The graph stays as it is. What its models and tools do is told by LangGraph's own events (`adapted_watch`) and stored
like what our agents do; where it interrupts, the person is asked (`adapted_questions`).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orjson import loads

from artifactflow_nb.approvals import Decision
from artifactflow_nb.errors import UsageError
from artifactflow_nb.store.storable import to_json
from artifactflow_nb.text.cards import Card, Code, Rows, Shown

if TYPE_CHECKING:
    from langgraph.pregel import Pregel

_UNNAMED = "LangGraph"
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class AdaptedGraph(Shown):
    """A graph that can answer questions; made by `adapt`.

    Attributes:
        graph: The compiled graph.
        name: The flow's name.
        input: What the graph gets, of the question.
        answer: The answer, of the state in which the graph ended; None for its last AI message.
        resume: What an interrupt gives back, of the person's decision; None for `resume_value`.
        context: What the graph's nodes get as their runtime's context.
    """

    graph: "Pregel[Any, Any, Any, Any]" = field(repr=False)
    name: str
    input: Callable[[str], Any] = field(repr=False)
    answer: Callable[[Any], str] | None = field(default=None, repr=False)
    resume: Callable[[Decision], Any] | None = field(default=None, repr=False)
    context: Any = field(default=None, repr=False)

    @property
    def nodes(self) -> list[str]:
        """The names of the graph's nodes."""
        return sorted(name for name in self.graph.nodes if not name.startswith("__"))

    @property
    def described(self) -> dict[str, Any]:
        """What tells the graph from another one: its nodes, and the edges that LangGraph sees between them."""
        edges = [f"{edge.source} -> {edge.target}" for edge in self.graph.get_graph().edges]
        return {"nodes": self.nodes, "edges": sorted(edges)}

    def asked(self, question: str) -> Any:
        """What the graph gets of a question, as JSON; where an object lies in memory is no part of it."""
        return loads(_ADDRESS.sub("", to_json(self.input(question))))

    def _card(self) -> Card:
        keeps = "its own" if self.graph.checkpointer else "the workbench's"
        rows: Rows = [("nodes", Code(", ".join(self.nodes))), ("checkpoints", keeps)]
        return Card("Adapted graph", self.name, rows, note=f'Ask it with wb.ask("...", flow={self.name!r}).')


def adapt(
    graph: Any,
    *,
    name: str | None = None,
    input: Callable[[str], Any] | None = None,  # noqa: A002 - as LangGraph calls it
    answer: Callable[[Any], str] | None = None,
    resume: Callable[[Decision], Any] | None = None,
    context: Any = None,
) -> AdaptedGraph:
    """Make a flow of a compiled LangGraph graph: `wb.ask("...", flow=af.adapt(graph))`.

    Its model calls and tool calls become events and rows like those of our agents, with the node's name as the agent;
    an `interrupt(value)` asks the person, and gives back what they decide; `cancel` and budgets hold. A graph that is
    compiled without a checkpointer gets the workbench's, so that its interrupts survive the process. Its runs are
    recorded and sealed like others, and played as a whole: what it did comes again, and the graph itself does not run.
    Middleware is not told of its calls: LangChain's callbacks are, which a graph brings along.

    Args:
        graph: What `StateGraph.compile()`, `create_react_agent` or `@entrypoint` gave.
        name: The flow's name; None for that of the graph, or `graph` if that has none.
        input: What the graph gets, of the question; None for `{"messages": [("user", question)]}`.
        answer: The answer as text, of the state in which the graph ended; None for its last AI message.
        resume: What an interrupt gives back, of the person's `Decision`; None for True if it was approved, False if it
            was denied, the parameters if they were edited, and the text of an answer.
        context: What the graph's nodes get as their runtime's context.

    Errors: `UsageError` for what is no compiled graph, and for a name that is empty.
    """
    from langgraph.pregel import Pregel

    if not isinstance(graph, Pregel):
        advice = "Pass graph.compile()." if hasattr(graph, "compile") else "Pass what compile() gave."
        raise UsageError(f"A {type(graph).__name__} is no compiled LangGraph graph. {advice}")
    given = graph.get_name() if name is None else name
    flow = "graph" if name is None and given == _UNNAMED else given
    if not isinstance(flow, str) or not flow.strip():
        raise UsageError(f"name is {name!r}; a flow's name must be text.")
    return AdaptedGraph(graph, flow, input or messages_input, answer, resume, context)


def messages_input(question: str) -> Mapping[str, Any]:
    """What most graphs get: the question as a user's message."""
    return {"messages": [("user", question)]}


def resume_value(decision: Decision) -> Any:
    """What an interrupt gives back, unless the graph was adapted otherwise."""
    if decision.instead:
        return decision.instruction
    return decision.approved if decision.params is None else dict(decision.params)
