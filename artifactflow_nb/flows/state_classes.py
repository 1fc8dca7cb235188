"""The classes of a graph's state, from its annotations: a checkpoint of the graph may contain no others.

LangGraph collects them itself, but only in its strict mode, and only for internal use.
"""

from collections.abc import Iterable
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel


def state_classes(graph: Any) -> set[type]:
    """Find the dataclasses, models and enums that annotate the state of a compiled graph and its subgraphs."""
    classes: set[type] = set()
    for part in (graph, *(subgraph for _, subgraph in graph.get_subgraphs(recurse=True))):
        for schema in getattr(getattr(part, "builder", None), "schemas", ()):
            _add_classes(schema, classes)
        for channel in part.channels.values():
            _add_classes(getattr(channel, "ValueType", None), classes)
            _add_classes(getattr(channel, "UpdateType", None), classes)
    return {cls for cls in classes if is_dataclass(cls) or issubclass(cls, BaseModel | Enum)}


def _add_classes(annotation: Any, classes: set[type]) -> None:
    """Add the classes of an annotation: of its arguments, and of the fields of classes that have annotated ones."""
    for part in get_args(annotation):
        _add_classes(part, classes)
    if hasattr(annotation, "__supertype__"):  # a NewType
        _add_classes(annotation.__supertype__, classes)
    if isinstance(annotation, type) and annotation not in classes:
        classes.add(annotation)
        if is_dataclass(annotation) or issubclass(annotation, BaseModel) or hasattr(annotation, "__total__"):
            for part in _annotations(annotation):
                _add_classes(part, classes)


def _annotations(annotated: type) -> Iterable[Any]:
    """The annotations of the fields of a class; none if one of them cannot be resolved."""
    try:
        return get_type_hints(annotated, include_extras=True).values()
    except (NameError, TypeError):  # pydantic resolves what was defined inside a function
        return [field.annotation for field in getattr(annotated, "model_fields", {}).values()]
