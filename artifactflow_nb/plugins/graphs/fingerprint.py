"""Fingerprint of a compiled graph: names of parts by which another process can recognise the graph.

Nodes, edges and tools are in the graph itself. Models are found in the objects of its nodes: in the steps of chains,
and in the closures and global variables of functions.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import FrameType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable
from langgraph.pregel import Pregel

if TYPE_CHECKING:
    AnyGraph = Pregel[Any, Any, Any, Any]

_MAX_PARTS = 100
"""A longer container holds data and is not searched."""


def graph_fingerprint(graph: "AnyGraph") -> dict[str, list[str]]:
    """Return the sorted names of a graph's nodes and edges, and of all tools and models, also in subgraphs."""
    tools, models = set[str](), set[str]()
    for part in graph_parts(graph):
        if isinstance(part, BaseLanguageModel):
            names = (getattr(part, name, None) for name in ("model_name", "model"))
            models.add(next((name for name in names if isinstance(name, str) and name), type(part).__name__))
            continue
        # Only LangGraph's tool node counts: tools in other nodes may never be called. The class is asked, because a
        # configurable model of `init_chat_model` makes a model for each unknown attribute, and may have no name yet.
        by_name = part.tools_by_name if hasattr(type(part), "tools_by_name") else None
        tools.update(map(str, by_name) if isinstance(by_name, Mapping) else ())
    return {
        "nodes": sorted(name for name in graph.nodes if not name.startswith("__")),
        "edges": sorted(f"{edge.source} -> {edge.target}" for edge in graph.get_graph().edges),
        "tools": sorted(tools),
        "models": sorted(models),
    }


def ask_for_usage(graph: "AnyGraph") -> None:
    """Let the models of a graph request the usage of streamed replies, unless the user has chosen otherwise.

    By default, LangChain's OpenAI models request no usage from an endpoint with a custom address
    (`stream_usage=None`), so the usage would have to be estimated.
    """
    for part in graph_parts(graph):
        _set_stream_usage(part)


def ask_for_usage_of_call(frame: FrameType | None) -> None:
    """Let the model that calls this frame request the usage; a node may have made the model for the call.

    Callbacks get neither the model nor the fields of its request, so the model is found among the callback's callers.
    """
    while frame is not None and not _set_stream_usage(frame.f_locals.get("self")):
        frame = frame.f_back


def _set_stream_usage(part: object) -> bool:
    """Set `stream_usage` of a model unless it is set; return whether the object is a model."""
    is_model = isinstance(part, BaseLanguageModel)
    if is_model and getattr(part, "stream_usage", True) is None:
        setattr(part, "stream_usage", True)  # noqa: B010 - only some models have it
    return is_model


def graph_parts(graph: "AnyGraph") -> Iterator[Any]:
    """Yield the models, functions and other runnables in a graph and its subgraphs.

    Objects that a node creates when it runs are not found.
    """
    pending: deque[Any] = deque([graph])
    seen: dict[int, Any] = {}  # the objects too, so that no id is reused
    while pending:
        part = pending.popleft()
        if id(part) in seen or not isinstance(part, Runnable | partial | FunctionType | MethodType):
            continue
        seen[id(part)] = part
        yield part
        if isinstance(part, BaseLanguageModel):
            continue
        if isinstance(part, Pregel):
            pending.extend(node.bound for node in part.nodes.values())
        elif isinstance(part, partial):
            pending.extend((part.func, *part.args, *part.keywords.values()))
        elif isinstance(part, MethodType):
            pending.extend((part.__func__, *_attributes(part.__self__)))
        elif isinstance(part, FunctionType):
            for cell in part.__closure__ or ():
                with suppress(ValueError):  # the cell is still empty
                    pending.append(cell.cell_contents)
            names_in_code = (part.__globals__.get(name) for name in part.__code__.co_names)
            pending.extend(value for value in names_in_code if isinstance(value, Runnable))
        else:
            pending.extend(_attributes(part))


def _attributes(owner: Any) -> Iterator[Any]:
    """Yield the attributes of an object, and the items of small containers among the attributes."""
    for value in getattr(owner, "__dict__", {}).values():
        if not isinstance(value, dict | list | tuple):
            yield value
        elif len(value) <= _MAX_PARTS:
            yield from value.values() if isinstance(value, dict) else value
