"""A compiled graph with the workbench's checkpoints, which are told the classes that its state may have.

To compile a graph takes ten milliseconds and more, and nothing in it is an engine's: so each is compiled once in a
process, and an engine has a shallow copy with checkpoints of its own, which takes microseconds.
"""

from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.pregel import Pregel

G = TypeVar("G", bound="Pregel[Any, Any, Any, Any]")


def with_saver(graph: G, saver: "BaseCheckpointSaver[str]") -> G:
    """The same graph with these checkpoints; `Pregel.copy` would forget the classes of its state."""
    ours = copy(graph)
    ours.checkpointer = saver.with_allowlist(_classes(graph))
    return ours


def _classes(graph: Any) -> set[tuple[str, ...]]:
    """The classes that the annotations of a graph's state name, and of the graphs within it."""
    graphs = (graph, *(within for _, within in graph.get_subgraphs(recurse=True)))
    return {name for one in graphs for name in one._serde_allowlist or _named(one)}  # noqa: SLF001 - as LangGraph reads it


def _named(graph: Any) -> set[tuple[str, ...]]:
    """The same of one graph, of which LangGraph did not note them.

    It does when a graph is compiled, but only if its strict mode was switched on before it was imported.
    """
    from langgraph._internal._serde import build_serde_allowlist

    schemas = getattr(getattr(graph, "builder", None), "schemas", ())
    return build_serde_allowlist(schemas=list(schemas), channels=graph.channels)
