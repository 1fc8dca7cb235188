"""JSON schemas of MCP tools: normalized for models, and turned into pydantic models that convert the arguments.

In the text protocol all values are texts. Each value is converted to its declared type; a value without a declared type
stays a text. Values of types that are not supported here are sent unchanged to the server, which validates them.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, create_model
from pydantic_core import CoreSchema, core_schema

from artifactflow_nb.core.text.cards import escape_invisible

Schema = dict[str, Any]

MAX_NAME_CHARS = 64
"""Maximum length of names at endpoints."""

_MAX_DEPTH = 12
_MAX_PARTS = 1_000
_MAX_SCHEMA_CHARS = 40_000
_MAX_DESCRIPTION_CHARS = 2_000
_MAX_LISTED_CHOICES = 20
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9]+")
_NUMBER = re.compile(r"\s*[+-]?(?:\d+(\.\d*)?|(\.\d+))([eE][+-]?\d+)?\s*")
_NUMERIC = (bool, int, float)
_PLAIN: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("type", "format", "pattern"), str),
    **dict.fromkeys(("enum", "required"), list),
    **dict.fromkeys(("const", "default"), object),
}
"""Types of the values of keywords that are copied; of other keywords only numbers and booleans are copied."""

_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_KINDS: Mapping[Any, Any] = {"string": str, "integer": int, "boolean": bool, "null": None}


class _NotSent:
    def __repr__(self) -> str:
        return "NOT_SENT"


NOT_SENT = _NotSent()
"""Marks a parameter that the call omits and that is not sent to the server either."""


class McpParams(BaseModel):
    """Parameters of one tool. Aliases hold the names, because some names are not valid as names of Python fields."""

    model_config = ConfigDict(allow_inf_nan=False, defer_build=True)

    server_schema: ClassVar[Schema] = {}

    @classmethod
    def model_json_schema(cls, *_args: Any, **_options: Any) -> Schema:
        """Return the normalized schema of the server."""
        return deepcopy(cls.server_schema)

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Return the parameters of the call by name, without omitted parameters."""
        return super().model_dump(**{**options, "by_alias": True, "exclude_unset": True})


def params_model(tool: str, schema: Schema) -> type[McpParams]:
    """Create the parameter model of a schema from `normalize_schema`."""
    required = schema.get("required", ())
    fields: dict[str, Any] = {
        f"field_{n}": (_kind(prop), Field(... if name in required else NOT_SENT, alias=name))
        for n, (name, prop) in enumerate(schema["properties"].items())
    }
    model = create_model(f"{tool}_params", __base__=McpParams, **fields)
    model.server_schema = schema
    model.model_config["extra"] = "allow" if schema.get("additionalProperties") else "forbid"
    return model


def server_arguments(schema: Schema, renamed: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the values of a `params_model` to arguments for the server, with the server's names."""
    fields = {f"field_{n}": name for n, name in enumerate(schema["properties"])}
    arguments = {fields.get(name, name): value for name, value in values.items() if value is not NOT_SENT}
    return {renamed.get(name, name): value for name, value in arguments.items()}


# --- schemas for models --------------------------------------------------------------------------------------------


def identifier(name: str, default: str) -> str:
    """Convert a name to letters, digits and `_`, starting with a letter, as endpoints and the text protocol require."""
    if _WORD.fullmatch(name):
        return name[:MAX_NAME_CHARS]
    word = _NOT_IN_NAME.sub("_", name).strip("_")
    return (word if word[:1].isalpha() else f"{default}_{word}")[:MAX_NAME_CHARS].rstrip("_")


def unused_name(name: str, used: Iterable[str]) -> str:
    """Return the name, with a number appended if it is in use."""
    reserved, n, candidate = set(used), 2, name
    while candidate in reserved:
        candidate, n = f"{name[: MAX_NAME_CHARS - 5]}_{n}", n + 1
    return candidate


def normalize_schema(source: Any) -> tuple[Schema, dict[str, str]]:
    """Return a schema that every endpoint accepts, and the server's names of renamed parameters.

    References are inlined. Parts that are too long, too deep or invalid are omitted; the server still validates them.
    """
    root = source if isinstance(source, Mapping) else {}
    properties = root.get("properties")
    renamed: dict[str, str] = {}
    written: dict[str, Schema] = {}
    required = []
    for name, prop in properties.items() if isinstance(properties, Mapping) else ():
        unique_name = unused_name(identifier(name, "p"), written)
        written[unique_name] = _SchemaWriter(root).write(prop)
        if unique_name != name:
            renamed[unique_name] = name
        if isinstance(required_names := root.get("required"), Sequence) and name in required_names:
            required.append(unique_name)
    if len(json.dumps(written, default=str)) > _MAX_SCHEMA_CHARS:  # then keep only the types
        written = {name: {"type": prop["type"]} if "type" in prop else {} for name, prop in written.items()}
    schema: Schema = {"type": "object", "properties": written, "required": required}
    if root.get("additionalProperties"):
        schema["additionalProperties"] = True
    return schema, renamed


class _SchemaWriter:
    """Copies a part of a schema with its references inlined, up to a maximum number of parts.

    Args:
        root: The schema, in which references are looked up.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._n_parts = 0
        self._within: list[str] = []  # references being inlined, to detect recursion

    def write(self, part: Any, depth: int = 0) -> Schema:
        """Copy a part of the schema; an invalid or recursive part becomes an empty schema, which allows any value."""
        self._n_parts += 1
        if not isinstance(part, Mapping) or depth > _MAX_DEPTH or self._n_parts > _MAX_PARTS:
            return {}
        if isinstance(reference := part.get("$ref"), str):
            target: Any = None if reference in self._within else self._root
            for step in reference.removeprefix("#/").split("/"):
                target = target.get(step) if isinstance(target, Mapping) else None
            siblings = {name: value for name, value in part.items() if name != "$ref"}
            self._within.append(reference)
            inlined = self.write(target, depth + 1)
            self._within.pop()
            return {**inlined, **self.write(siblings, depth + 1)}
        if isinstance(types := part.get("type"), list):
            rest = {name: value for name, value in part.items() if name != "type"}
            return self.write({**rest, "anyOf": [{"type": kind} for kind in types]}, depth + 1)
        return {
            name: value
            for name, keyword_value in part.items()
            if (value := self._value(name, keyword_value, depth)) is not None
        }

    def _value(self, name: str, value: Any, depth: int) -> Any:
        """Copy the value of a keyword, or return None to omit the keyword."""
        if name == "properties" and isinstance(value, Mapping):
            return {str(key): self.write(part, depth + 1) for key, part in value.items()}
        if name in {"items", "additionalProperties"} and isinstance(value, Mapping):
            return self.write(value, depth + 1)
        if name in {"anyOf", "oneOf", "allOf"} and isinstance(value, list):
            return [self.write(part, depth + 1) for part in value if isinstance(part, Mapping)] or None
        if name == "description" and isinstance(value, str):
            return escape_invisible(value)[:_MAX_DESCRIPTION_CHARS]
        if name == "type" and value not in _TYPES:
            return None
        return value if isinstance(value, _PLAIN.get(name, _NUMERIC)) else None


# --- validation of calls -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Coercion:
    """Validator that converts a value before pydantic checks its type; `name` is its label in signatures."""

    name: str
    read: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __repr__(self) -> str:
        return self.name


def _kind(prop: Schema) -> Any:
    """Return the type of a parameter, or `Any` if only the server can validate the parameter."""
    if "enum" in prop or "const" in prop:
        return Annotated[Any, _Coercion("one of several", _Choice(prop.get("enum", [prop.get("const")])))]
    alternatives = prop.get("anyOf", prop.get("oneOf"))
    if alternatives is not None:
        kinds = list(map(_kind, alternatives))
        return Any if Any in kinds else reduce(or_, kinds)
    if prop.get("type") == "array":
        return list[_kind(prop.get("items", {}))]  # type: ignore[misc]  # the type is not known before
    if prop.get("type") == "object":
        return Annotated[dict[str, Any], _Coercion("JSON", _from_json)]
    if prop.get("type") == "number":
        return Annotated[int | float, _Coercion("number", _number)]
    return _KINDS.get(prop.get("type"), Any)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Accepts one of several values, or the JSON text of such a value."""

    values: Sequence[Any]

    def __call__(self, argument: Any) -> Any:
        for value in self.values:
            if type(value) is type(argument) and value == argument:
                return value
        for value in self.values:
            if json.dumps(value, ensure_ascii=False) == argument:
                return value
        choices = ", ".join(json.dumps(value, ensure_ascii=False) for value in self.values[:_MAX_LISTED_CHOICES])
        raise ValueError(f"it must be one of {choices}")


def _number(argument: Any) -> int | float:
    """Convert an argument to a number: to an integer if the text is an integer."""
    if isinstance(argument, int | float) and not isinstance(argument, bool) and math.isfinite(argument):
        return argument
    match = _NUMBER.fullmatch(argument) if isinstance(argument, str) else None
    if match is not None and math.isfinite(float(argument)):
        return float(argument) if any(match.groups()) else int(argument)
    raise ValueError("it must be a number")


def _from_json(argument: Any) -> Any:
    if not isinstance(argument, str):
        return argument
    try:
        return json.loads(argument)
    except (ValueError, RecursionError):
        raise ValueError("it must be a JSON object") from None
