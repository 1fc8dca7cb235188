"""Reduces JSON schemas of tool parameters to the shapes for which a page has form fields."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from artifactflow_nb.core.budget import Budget
from artifactflow_nb.tools.base import Tool

FieldKind = Literal["text", "multiline", "integer", "number", "checkbox", "choice", "json", "list", "items"]

_REFERENCE = "#/$defs/"
_NULL = {"const": None}
_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}
_KINDS: dict[frozenset[str], FieldKind] = {
    frozenset({"string"}): "text",
    frozenset({"integer"}): "integer",
    frozenset({"number"}): "number",
    frozenset({"integer", "number"}): "number",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """Name, schema and shape of a parameter."""

    name: str
    schema: Mapping[str, Any]
    shape: "Shape"


@dataclass(frozen=True, slots=True)
class Shape:
    """The values that a parameter may have, in terms of form fields.

    Attributes:
        kind: Kind of the field.
        nullable: Whether None is a valid value.
        choices: Values of a `choice`.
        is_integer: For a `number`, whether integers remain integers.
        columns: Parameters of each object of `items`.
    """

    kind: FieldKind
    nullable: bool = False
    choices: tuple[Any, ...] = ()
    is_integer: bool = False
    columns: tuple[Parameter, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Distinct labels of the choices."""
        labels = [choice if isinstance(choice, str) else format_json(choice) for choice in self.choices]
        # The choices 1 and "1" have equal labels, unless all labels are JSON.
        return tuple(labels if len(set(labels)) == len(labels) else map(format_json, self.choices))


def format_json(value: Any, indent: int | None = None) -> str:
    """Format a value as JSON for people, with non-ASCII characters unescaped."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)


def tool_parameters(tool: Tool | None) -> list[Parameter]:
    """Return the parameters of a tool, in the order of its signature; for None, the limits of a budget."""
    if tool is None:
        limits = Budget.model_json_schema()["properties"]
        return [_parameter(name, limits[name], {}) for name in ("tokens", "usd", "seconds")]
    schema = tool.spec.parameters
    return _properties(schema, schema.get("$defs", {}))


def parameters_from_values(values: Mapping[str, Any]) -> list[Parameter]:
    """Create parameters for values without a signature; each parameter accepts values of its current type."""
    parameters = []
    for name, value in values.items():
        schema: dict[str, Any] = {"required": True}
        if type_name := _TYPE_NAMES.get(type(value)):
            schema["type"] = type_name
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            schema["items"] = {"type": "string"}
        parameters.append(_parameter(name, schema, {}))
    return parameters


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
    """Yield the alternatives of a schema, with references, unions and enums resolved.

    A schema that is not an object, for example `True`, allows anything.
    """
    if not isinstance(prop, Mapping):
        yield {}
    elif isinstance(reference := prop.get("$ref"), str):
        yield from _alternatives(definitions.get(reference.removeprefix(_REFERENCE)), definitions)
    elif isinstance(union := prop.get("anyOf") or prop.get("oneOf"), list):
        for member in union:
            yield from _alternatives(member, definitions)
    elif isinstance(values := prop.get("enum"), list):
        yield from ({"const": value} for value in values)
    elif isinstance(types := prop.get("type"), list):
        yield from ({**prop, "type": type_name} for type_name in types)
    else:
        yield _NULL if prop.get("type") == "null" else prop


def _shape(prop: Mapping[str, Any], definitions: Mapping[str, Any], *, within: bool) -> Shape:
    """Return the shape of a schema; schemas may recurse, so the fields `within` an item of `items` have no `items`."""
    alternatives = list(_alternatives(prop, definitions))
    schemas = [schema for schema in alternatives if schema != _NULL]
    nullable = len(schemas) < len(alternatives)
    if schemas and all("const" in schema for schema in schemas):
        return Shape("choice", nullable, tuple(schema["const"] for schema in schemas))
    types = frozenset(str(schema.get("type", "any")) for schema in schemas)
    if types == {"boolean"}:
        return Shape("choice", nullable, (True, False)) if nullable else Shape("checkbox")
    if types == {"array"}:
        items = [item for schema in schemas for item in _alternatives(schema.get("items"), definitions)]
        has_tuples = any("prefixItems" in schema for schema in schemas)
        if not has_tuples and all(item.get("type") == "string" and "const" not in item for item in items):
            return Shape("list", nullable)
    if types == {"array"} and not within and (columns := _columns(schemas, definitions)):
        return Shape("items", nullable, columns=columns)
    return Shape(_KINDS.get(types, "json"), nullable or "any" in types, is_integer="integer" in types)


def _columns(arrays: list[Mapping[str, Any]], definitions: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """Return the parameters of the objects in a list; empty unless all objects have one schema with named fields."""
    items = [schema for array in arrays for schema in _alternatives(array.get("items"), definitions)]
    if len(items) != 1 or items[0].get("type") != "object" or any("prefixItems" in array for array in arrays):
        return ()
    return tuple(_properties(items[0], definitions, within=True))
