"""What a compiled graph is made of, as far as it can be read: by that one is told from another, in any process.

Nodes, edges and tools stand in the graph itself. Its models are found in what its nodes hold: chains are taken apart,
and of functions what they enclose, and what they name of their module.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from langgraph.pregel import Pregel

if TYPE_CHECKING:
    AnyGraph = Pregel[Any, Any, Any, Any]

_MOST_PARTS = 100
"""What holds more than this holds data, which are not looked through."""


def described(graph: "AnyGraph") -> dict[str, list[str]]:
    """The names of a graph's nodes and edges, and of the tools and models in it and in graphs within it; all sorted.

    What a node only comes to hold when it runs is not found.
    """
    parts = list(_parts(graph))
    return {
        "nodes": sorted(name for name in graph.nodes if not name.startswith("__")),
        "edges": sorted(f"{edge.source} -> {edge.target}" for edge in graph.get_graph().edges),
        "tools": sorted({name for part in parts for name in _tools(part)}),
        "models": sorted({_model(part) for part in parts if isinstance(part, BaseLanguageModel)}),
    }


def _tools(part: Any) -> Iterable[str]:
    """The tools of LangGraph's node for them; tools that other nodes hold may be called or not."""
    tools = getattr(part, "tools_by_name", None) if isinstance(part, Runnable) else None
    return map(str, tools) if isinstance(tools, Mapping) else ()


def _model(model: Any) -> str:
    named = (getattr(model, name, None) for name in ("model_name", "model"))
    return next((name for name in named if isinstance(name, str) and name), type(model).__name__)


def _parts(graph: "AnyGraph") -> Iterator[Any]:
    """What a graph's nodes hold, and what that holds, each once."""
    left: deque[Any] = deque([graph])
    seen: dict[int, Any] = {}
    while left:
        part = left.popleft()
        if id(part) in seen or not isinstance(part, Runnable | partial | FunctionType | MethodType):
            continue
        seen[id(part)] = part
        yield part
        left.extend(_within(part))


def _within(part: Any) -> Iterable[Any]:
    if isinstance(part, Pregel):
        return [node.bound for node in part.nodes.values()]
    if isinstance(part, BaseLanguageModel):
        return ()
    if isinstance(part, partial):
        return [part.func, *part.args, *part.keywords.values()]
    if isinstance(part, MethodType):
        return [part.__func__, *_held(part.__self__)]
    return _named(part) if isinstance(part, FunctionType) else _held(part)


def _held(thing: Any) -> Iterator[Any]:
    """What the attributes of an object are, or have in them."""
    for value in getattr(thing, "__dict__", {}).values():
        if not isinstance(value, dict | list | tuple):
            yield value
        elif len(value) <= _MOST_PARTS:
            yield from value.values() if isinstance(value, dict) else value


def _named(function: FunctionType) -> Iterator[Any]:
    """What a function encloses, and the chains and models of its module that it names."""
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # nothing is in it yet
            yield cell.cell_contents
    named = (function.__globals__.get(name) for name in function.__code__.co_names)
    yield from (value for value in named if isinstance(value, Runnable))
