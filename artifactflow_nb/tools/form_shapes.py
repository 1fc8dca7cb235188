"""What a tool's signature says of its parameters, as far as a page has fields for them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from artifactflow_nb.budget import Budget
from artifactflow_nb.tools.base import Tool

Kind = Literal["text", "multiline", "integer", "number", "checkbox", "choice", "json", "list", "items"]

LIMITS = {
    "tokens": "Input and output tokens of all model calls of the run, those that are spent included.",
    "usd": "US dollars that these calls cost.",
    "seconds": "Seconds that the run is at work, without the time in which it waits for you.",
}
"""The parameters of a request about the budget."""

_REFERENCE = "#/$defs/"
_NULL = {"const": None}
_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}
_KINDS: dict[frozenset[str], Kind] = {
    frozenset({"string"}): "text",
    frozenset({"integer"}): "integer",
    frozenset({"number"}): "number",
    frozenset({"integer", "number"}): "number",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its name, what its schema says of it, and what it may hold."""

    name: str
    schema: Mapping[str, Any]
    shape: "Shape"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a parameter may hold, as far as a page has a field for it.

    Attributes:
        kind: The kind of its field.
        nullable: Whether no value at all is a value.
        choices: The values of a `choice`.
        whole: Of numbers, whether integers stay integers.
        columns: What each object of `items` holds.
    """

    kind: Kind
    nullable: bool = False
    choices: tuple[Any, ...] = ()
    whole: bool = False
    columns: tuple[Parameter, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The choices as the page shows them, no two alike."""
        said = [choice if isinstance(choice, str) else as_json(choice) for choice in self.choices]
        return tuple(said if len(set(said)) == len(said) else map(as_json, self.choices))


def as_json(value: Any, indent: int | None = None) -> str:
    """A value as a person reads and writes JSON."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def parameters(tool: Tool | None) -> list[Parameter]:
    """The parameters of a tool in the order of its signature; of None the limits of a budget."""
    if tool is None:
        limits = Budget.model_json_schema()["properties"]
        return [_parameter(name, {**limits[name], "description": doc}, {}) for name, doc in LIMITS.items()]
    schema = tool.spec.parameters
    return _properties(schema, schema.get("$defs", {}))


def parameters_of(values: Mapping[str, Any]) -> list[Parameter]:
    """Parameters that no signature tells of: each may hold what is of the kind of its value."""
    return [_parameter(name, {**_schema_of(value), "required": True}, {}) for name, value in values.items()]


def _schema_of(value: Any) -> Mapping[str, Any]:
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return {"type": "array", "items": {"type": "string"}}
    named = _NAMES.get(type(value))
    return {} if named is None else {"type": named}


def _properties(schema: Mapping[str, Any], definitions: Mapping[str, Any], *, within: bool = False) -> list[Parameter]:
    required = schema.get("required", ())
    properties = schema.get("properties", {}).items()
    return [
        _parameter(name, {**prop, "required": name in required}, definitions, within=within)
        for name, prop in properties
    ]


def _parameter(
    name: str, prop: Mapping[str, Any], definitions: Mapping[str, Any], *, within: bool = False
) -> Parameter:
    return Parameter(name, prop, _shape(prop, definitions, within=within))


def _alternatives(prop: Any, definitions: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What a value may be, each possibility by itself; a schema that is no object allows anything."""
    if not isinstance(prop, Mapping):
        yield {}
    elif isinstance(reference := prop.get("$ref"), str):
        yield from _alternatives(definitions.get(reference.removeprefix(_REFERENCE)), definitions)
    elif isinstance(several := prop.get("anyOf") or prop.get("oneOf"), list):
        for one in several:
            yield from _alternatives(one, definitions)
    elif isinstance(values := prop.get("enum"), list):
        yield from ({"const": value} for value in values)
    elif isinstance(types := prop.get("type"), list):
        yield from ({**prop, "type": one} for one in types)
    else:
        yield _NULL if prop.get("type") == "null" else prop


def _shape(prop: Mapping[str, Any], definitions: Mapping[str, Any], *, within: bool) -> Shape:
    """What a value may be; `within` an object of a list there are no further such lists, which may have no end."""
    found = list(_alternatives(prop, definitions))
    some = [one for one in found if one != _NULL]
    nullable = len(some) < len(found)
    if some and all("const" in one for one in some):
        return Shape("choice", nullable, tuple(one["const"] for one in some))
    types = frozenset(str(one.get("type", "any")) for one in some)
    if types == {"boolean"}:
        return Shape("choice", nullable, (True, False)) if nullable else Shape("checkbox")
    if types == {"array"} and all(_holds_texts(one, definitions) for one in some):
        return Shape("list", nullable)
    if types == {"array"} and not within and (columns := _columns(some, definitions)):
        return Shape("items", nullable, columns=columns)
    return Shape(_KINDS.get(types, "json"), nullable or "any" in types, whole="integer" in types)


def _columns(arrays: list[Mapping[str, Any]], definitions: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """What the objects of a list hold; empty if they are not all of one kind with names that are known."""
    kinds = [one for array in arrays for one in _alternatives(array.get("items"), definitions)]
    if len(kinds) != 1 or kinds[0].get("type") != "object" or any("prefixItems" in array for array in arrays):
        return ()
    return tuple(_properties(kinds[0], definitions, within=True))


def _holds_texts(array: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    items = list(_alternatives(array.get("items"), definitions))
    return "prefixItems" not in array and all(one.get("type") == "string" and "const" not in one for one in items)
