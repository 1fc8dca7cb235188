"""A LangGraph graph of a user's own, as a flow of the workbench: `af.adapt(graph)`.

The graph stays as it is. What its models and tools do is told by LangGraph's own events (`adapted_watch`) and stored
like what our agents do; where it interrupts, the person is asked (`adapted_questions`).
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orjson import loads

from artifactflow_nb.approvals import Decision
from artifactflow_nb.errors import UsageError, told
from artifactflow_nb.messages import Message
from artifactflow_nb.store.storable import to_json
from artifactflow_nb.text.cards import Card, Code, Rows, Shown

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.pregel import Pregel

History = list[tuple[str, str]]
"""The conversation before a question, oldest first: `user` or `assistant`, and what was said."""

_UNNAMED = "LangGraph"
_AWAITED = ("aget_tuple", "aput", "aput_writes")
"""What a graph awaits of its checkpointer; one that LangGraph made for synchronous use only lacks some of it."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class AdaptedGraph(Shown):
    """A graph that can answer questions; made by `adapt`.

    Attributes:
        graph: The compiled graph.
        name: The flow's name.
        input: What the graph gets, of the question and the conversation before it.
        answer: The answer, of the state in which the graph ended; None for its last AI message.
        resume: What an interrupt gives back, of the person's decision; None for `resume_value`.
        context: What the graph's nodes get as their runtime's context.
        is_named: Whether somebody chose the name; otherwise another graph may have the same.
    """

    graph: "Pregel[Any, Any, Any, Any]" = field(repr=False)
    name: str
    input: Callable[[str, History], Any] = field(repr=False)
    answer: Callable[[Any], str] | None = field(default=None, repr=False)
    resume: Callable[[Decision], Any] | None = field(default=None, repr=False)
    context: Any = field(default=None, repr=False)
    is_named: bool = field(default=True, repr=False)

    @property
    def described(self) -> dict[str, list[str]]:
        """What tells the graph from another one: its nodes, edges, tools and models."""
        from artifactflow_nb.flows.adapted_parts import described

        return described(self.graph)

    @property
    def checkpointer(self) -> "BaseCheckpointSaver[Any] | None":
        """Where the graph itself keeps how far it has come; None if the workbench has to."""
        from langgraph.checkpoint.base import BaseCheckpointSaver

        own = self.graph.checkpointer
        return own if isinstance(own, BaseCheckpointSaver) else None

    def given(self, question: str, history: History) -> Any:
        """What the graph gets of a question; `UsageError` if `input` fails."""
        try:
            return self.input(question, history)
        except Exception as error:
            raise UsageError(
                f"The input= with which the graph {self.name!r} was adapted failed for the question "
                f"{question!r:.200}: {told(error)}"
            ) from error

    def asked(self, question: str, history: History) -> Any:
        """What the graph gets of a question, as JSON; where an object lies in memory is no part of it."""
        return loads(_ADDRESS.sub("", to_json(self.given(question, history))))

    def _card(self) -> Card:
        keeps = "the workbench's" if self.checkpointer is None else "its own"
        rows: Rows = [("nodes", Code(", ".join(self.described["nodes"]))), ("checkpoints", keeps)]
        return Card("Adapted graph", self.name, rows, note=f'Ask it with wb.ask("...", flow={self.name!r}).')


def adapt(
    graph: Any,
    *,
    name: str | None = None,
    input: Callable[[str, History], Any] | None = None,  # noqa: A002 - as LangGraph calls it
    answer: Callable[[Any], str] | None = None,
    resume: Callable[[Decision], Any] | None = None,
    context: Any = None,
) -> AdaptedGraph:
    """Make a flow of a compiled LangGraph graph: `wb.ask("...", flow=af.adapt(graph))`.

    Its model calls and tool calls become events and rows like those of our agents, with the node's name as the agent;
    an `interrupt(value)` asks the person, and gives back what they decide; `cancel` and budgets hold. At its budget no
    model is asked and no node begins, and what is at work is stopped; if the run may go on, that begins anew.

    A graph that is compiled without a checkpointer gets the workbench's, so that its interrupts survive the process.
    What of its state cannot be written to a file (a table, an open file, an object of a class that its annotations do
    not name) stays in memory, and only this process can go on with it. Its runs are recorded and sealed like others,
    and played as a whole: what it did comes again, and the graph itself does not run. Middleware is not told of its
    calls: LangChain's callbacks are, which a graph brings along.

    A node that is no coroutine works in a thread, which nobody can stop: when its run is cancelled, it goes on to the
    end of its function, and nothing of what it does then is stored.

    Args:
        graph: What `StateGraph.compile()`, `create_react_agent` or `@entrypoint` gave.
        name: The flow's name; None for that of the graph. One that has none is called `graph`, and where another such
            graph is called so already, which differs in nodes, edges, tools or models, `graph_2` and so on.
        input: What the graph gets, of the question and of the conversation before it: a list of `("user", text)` and
            `("assistant", text)`, oldest first, of the branch that is continued. None for
            `{"messages": [*history, ("user", question)]}`.
        answer: The answer as text, of the state in which the graph ended; None for its last AI message.
        resume: What an interrupt gives back, of the person's `Decision`; None for True if it was approved, False if it
            was denied, the parameters if they were edited, and the text of an answer.
        context: What the graph's nodes get as their runtime's context.

    Errors: `UsageError` for what is no compiled graph, a name that is empty, an `input` that does not take two
        arguments, and a checkpointer that cannot be awaited.
    """
    from langgraph.pregel import Pregel

    if not isinstance(graph, Pregel):
        advice = "Pass graph.compile()." if hasattr(graph, "compile") else "Pass what compile() gave."
        raise UsageError(f"A {type(graph).__name__} is no compiled LangGraph graph. {advice}")
    given = graph.get_name() if name is None else name
    is_named = name is not None or given != _UNNAMED
    flow = given if is_named else "graph"
    if not isinstance(flow, str) or not flow.strip():
        raise UsageError(f"name is {name!r}; a flow's name must be text.")
    if input is not None:
        _check_input(input)
    adapted = AdaptedGraph(graph, flow, input or messages_input, answer, resume, context, is_named)
    _check_checkpointer(adapted.checkpointer)
    return adapted


def _check_input(given: object) -> None:
    """Refuse what cannot be called with two arguments; some builtins, such as `str`, do not tell what they take."""
    try:
        inspect.signature(given).bind("", [])  # type: ignore[arg-type]  # what cannot be called is told apart here
    except (TypeError, ValueError):
        raise UsageError(
            f"input is {given!r:.200}, which does not take two arguments, the question and the conversation before it. "
            'Write for example input=lambda question, history: {"messages": [*history, ("user", question)]}.'
        ) from None


def _check_checkpointer(saver: "BaseCheckpointSaver[Any] | None") -> None:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    if saver is not None and any(getattr(type(saver), name) is getattr(BaseCheckpointSaver, name) for name in _AWAITED):
        raise UsageError(
            f"The graph's checkpointer, {type(saver).__name__}, has no asynchronous methods, and graphs run "
            "asynchronously here. Compile the graph with one that has, such as AsyncSqliteSaver or InMemorySaver, or "
            "without one: the workbench then keeps how far it has come."
        )


def history_of(messages: Iterable[Message]) -> History:
    """The conversation before a question as `input` gets it."""
    return [(message.role, message.content) for message in messages]


def messages_input(question: str, history: History) -> Mapping[str, Any]:
    """What most graphs get: the conversation before the question, and the question as a user's message."""
    return {"messages": [*history, ("user", question)]}


def resume_value(decision: Decision) -> Any:
    """What an interrupt gives back, unless the graph was adapted otherwise."""
    if decision.instead:
        return decision.instruction
    return decision.approved if decision.params is None else dict(decision.params)
