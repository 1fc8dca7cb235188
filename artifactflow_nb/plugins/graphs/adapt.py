"""A user's LangGraph graph as a flow of the workbench: `af.adapt(graph)`.

The only change to the graph is that its models request the usage of streamed replies. LangGraph's events report its
model calls and tools (`tracer.py`), which are stored like calls of the package's agents. Its interrupts become requests
to the person (`interrupts.py`, `flow.py`).
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.errors import UsageError, brief, describe_error
from artifactflow_nb.flows.base import Flow, OwnFlow

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.pregel import Pregel

History = list[tuple[str, str]]
"""The conversation before a question, oldest first: pairs of `user` or `assistant` and a text."""

_UNNAMED = "LangGraph"
_ASYNC_METHODS = ("aget_tuple", "aput", "aput_writes")
"""Checkpointer methods that a graph awaits; LangGraph's synchronous checkpointers do not implement all of them."""


@dataclass(frozen=True, slots=True)
class AdaptedGraph(OwnFlow):
    """A graph that can answer questions; created by `adapt`.

    Attributes:
        graph: The compiled graph.
        name: The flow's name.
        input: Returns the graph's input for a question and the conversation before it.
        answer: Returns the answer from the graph's last state; None for the last AI message.
        resume: Returns the value of an interrupt from the person's decision; None for `interrupts.resume_value`.
        context: The runtime context of the graph's nodes.
        has_explicit_name: Whether the user chose the name; otherwise another graph may have the same name.
    """

    graph: "Pregel[Any, Any, Any, Any]" = field(repr=False)
    name: str
    input: Callable[[str, History], Any] = field(repr=False)
    answer: Callable[[Any], str] | None = field(default=None, repr=False)
    resume: Callable[[Decision], Any] | None = field(default=None, repr=False)
    context: Any = field(default=None, repr=False)
    has_explicit_name: bool = field(default=True, repr=False)

    @property
    def fingerprint(self) -> dict[str, list[str]]:
        """The names of the graph's nodes, edges, tools and models, which distinguish the graph from other graphs."""
        from artifactflow_nb.plugins.graphs.fingerprint import graph_fingerprint

        return graph_fingerprint(self.graph)

    def flow(self, saver: "Callable[[], BaseCheckpointSaver[str]]") -> Flow:
        """Return the graph as a flow; `saver` returns the checkpointer for a graph that has none."""
        from artifactflow_nb.plugins.graphs.flow import AdaptedFlow

        return AdaptedFlow(self, saver)

    @property
    def checkpointer(self) -> "BaseCheckpointSaver[Any] | None":
        """The graph's own checkpointer; None if the workbench must store the checkpoints."""
        from langgraph.checkpoint.base import BaseCheckpointSaver

        own = self.graph.checkpointer
        return own if isinstance(own, BaseCheckpointSaver) else None

    def graph_input(self, question: str, history: History) -> Any:
        """Return the graph's input for a question; `UsageError` if `input` fails."""
        try:
            return self.input(question, history)
        except Exception as error:
            raise UsageError(
                f"The input= function of the graph {self.name!r} failed for the question {brief(question)}: "
                f"{describe_error(error)}"
            ) from error


def adapt(
    graph: Any,
    *,
    name: str | None = None,
    input: Callable[[str, History], Any] | None = None,  # noqa: A002 - LangGraph's term
    answer: Callable[[Any], str] | None = None,
    resume: Callable[[Decision], Any] | None = None,
    context: Any = None,
) -> AdaptedGraph:
    """Adapt a compiled LangGraph graph as a flow: `wb.ask("...", flow=af.adapt(graph))`.

    The graph's model calls and tool calls become events and rows like the calls of the package's agents. The agent of a
    call is LangChain's agent, or else the node. To-dos become a plan, and files in a deep agent's state become
    artifacts. An `interrupt(value)` asks the person and returns the decision; if the node fails with the decision, the
    person is asked again. `cancel` and budgets work: beyond its budget the graph starts no model call and no node, and
    running calls and nodes are stopped; they start again if the run may continue.

    A graph without a checkpointer gets the workbench's checkpointer, so that interrupts survive the process.
    State that cannot be serialized (a table, an open file, an object of a class that its annotations do not name) stays
    in memory, and only this process can continue the run. Runs are recorded and sealed like other runs; a replay
    plays a run back as a whole, without the graph. Middleware is not called for the graph's calls; use LangChain
    callbacks in the graph itself.

    A graph that is also awaited in cells needs models without lasting connections, because LangChain shares the
    connections of a process, each for one event loop: `ChatOpenAI(..., default_headers={"Connection": "close"})`.

    A node that is not a coroutine runs in a thread, which cannot be stopped: after a cancellation the node continues to
    the end of its function, but nothing is stored any more.

    Models with `stream_usage=None`, such as a `ChatOpenAI` with a custom address, are set to request the usage of
    streamed replies.

    Args:
        graph: Result of `StateGraph.compile()`, `create_react_agent` or `@entrypoint`.
        name: The flow's name, by default the graph's name. A graph without a name is called `graph`; if another graph
            with other nodes, edges, tools or models has that name already, `graph_2` and so on.
        input: Returns the graph's input for the question and the conversation before it: a list of `("user", text)` and
            `("assistant", text)`, oldest first, of the branch that is continued. None for
            `{"messages": [*history, ("user", question)]}`, with the input fields from the graph's last state on the
            branch, such as files or the active agent of a swarm. A graph without messages gets the
            question in a field with a name such as `question` or `topic`.
        answer: Returns the answer as text from the graph's last state. None for the last AI message; in a state without
            messages, for a field with a name such as `answer` or `report`, the only new text, or else the whole state.
        resume: Returns the value of an interrupt from the person's `Decision`; None for True if approved, False if
            denied, edited parameters, or the text of an instruction. Without `resume`, reviews of LangChain's
            `HumanInTheLoopMiddleware` and of deepagents' `interrupt_on` get decisions in the form of LangChain, one
            for each call, and `interrupt({"query": ...})` gets `{"data": ...}`.
        context: The runtime context of the graph's nodes.

    Errors: `UsageError` if the graph is not compiled, the name is empty, `input` does not take two arguments, or the
        checkpointer has no asynchronous methods.
    """
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.pregel import Pregel

    if not isinstance(graph, Pregel):
        advice = "Pass graph.compile()." if hasattr(graph, "compile") else "Pass the result of compile()."
        raise UsageError(f"A {type(graph).__name__} is not a compiled LangGraph graph. {advice}")
    own_name = graph.get_name() if name is None else name
    has_name = name is not None or own_name != _UNNAMED
    flow = own_name if has_name else "graph"
    if not isinstance(flow, str) or not flow.strip():
        raise UsageError(f"name is {brief(name)}; a flow's name must be text.")
    if input is not None:
        try:
            inspect.signature(input).bind("", [])
        except (TypeError, ValueError):  # no callable, wrong arguments, or a builtin such as `str` without a signature
            raise UsageError(
                f"input is {brief(input)}, which does not take two arguments, the question and the conversation before "
                'it. Write for example input=lambda question, history: {"messages": [*history, ("user", question)]}.'
            ) from None
    adapted = AdaptedGraph(graph, flow, input or messages_input, answer, resume, context, has_name)
    saver, base = adapted.checkpointer, BaseCheckpointSaver
    if saver is not None and any(getattr(type(saver), name) is getattr(base, name) for name in _ASYNC_METHODS):
        raise UsageError(
            f"The graph's checkpointer, {type(saver).__name__}, has no asynchronous methods, and graphs run "
            "asynchronously here. Compile the graph with AsyncSqliteSaver, InMemorySaver or another "
            "asynchronous checkpointer, or with none: the workbench then stores the checkpoints."
        )
    return adapted


def messages_input(question: str, history: History) -> Mapping[str, Any]:
    """Return the usual input: the conversation before the question, and the question as the user's message."""
    return {"messages": [*history, ("user", question)]}
