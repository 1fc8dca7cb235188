"""A server's JSON schema as the parameters of a tool: told to models as it is, held against calls as far as needed.

Values of the text protocol are texts; each becomes what its parameter is declared as, and a text stays as written where
a text is declared, or nothing. What is declared in a way that is not known here goes to the server, which checks it.
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

from artifactflow_nb.text.cards import visible

Schema = dict[str, Any]

LONGEST_NAME = 64
"""Endpoints take no longer names."""

_DEEPEST = 12
_MOST_PARTS = 1_000
_LONGEST_SCHEMA = 40_000
_LONGEST_DESCRIPTION = 2_000
_MOST_CHOICES_TOLD = 20
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NO_WORD = re.compile(r"[^A-Za-z0-9]+")
_NUMBER = re.compile(r"\s*[+-]?(?:\d+(\.\d*)?|(\.\d+))([eE][+-]?\d+)?\s*")
_FIGURE = (bool, int, float)
_PLAIN: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("type", "format", "pattern"), str),
    **dict.fromkeys(("enum", "required"), list),
    **dict.fromkeys(("const", "default"), object),
}
"""What stands beside keywords that are told as they are; any other is told if a figure stands beside it."""

_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_KINDS: Mapping[Any, Any] = {"string": str, "integer": int, "boolean": bool, "null": None}


class _NotSent:
    def __repr__(self) -> str:
        return "NOT_SENT"


NOT_SENT = _NotSent()
"""The value of a parameter that a call leaves out: the server is not sent it either."""


class Params(BaseModel):
    """The parameters of one tool: each is a field that has its name as alias, since a field may not have any name."""

    model_config = ConfigDict(allow_inf_nan=False, defer_build=True)

    told: ClassVar[Schema] = {}

    @classmethod
    def model_json_schema(cls, *_args: Any, **_options: Any) -> Schema:
        """The server's own schema."""
        return deepcopy(cls.told)

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """The parameters that the call has, by their names."""
        return super().model_dump(**{**options, "by_alias": True, "exclude_unset": True})


def params_of(tool: str, schema: Schema) -> type[Params]:
    """The parameters that a schema, as `told` makes it, declares."""
    required = schema.get("required", ())
    fields: dict[str, Any] = {
        f"field_{n}": (_kind(prop), Field(... if name in required else NOT_SENT, alias=name))
        for n, (name, prop) in enumerate(schema["properties"].items())
    }
    model = create_model(f"{tool}_params", __base__=Params, **fields)
    model.told = schema
    model.model_config["extra"] = "allow" if schema.get("additionalProperties") else "forbid"
    return model


def arguments_of(schema: Schema, renamed: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """What the server is sent: the values of the fields of `params_of`, and others, by the names that it gave."""
    fields = {f"field_{n}": name for n, name in enumerate(schema["properties"])}
    told = {fields.get(name, name): value for name, value in values.items() if value is not NOT_SENT}
    return {renamed.get(name, name): value for name, value in told.items()}


# --- what models are told --------------------------------------------------------------------------------------------


def identifier(name: str, otherwise: str) -> str:
    """A name of letters, digits and `_`, a letter first: what models, endpoints and the text protocol can write."""
    if _WORD.fullmatch(name):
        return name[:LONGEST_NAME]
    word = _NO_WORD.sub("_", name).strip("_")
    return (word if word[:1].isalpha() else f"{otherwise}_{word}")[:LONGEST_NAME].rstrip("_")


def unused(name: str, used: Iterable[str]) -> str:
    """The name, with a number behind it if it is used."""
    taken, n, found = set(used), 2, name
    while found in taken:
        found, n = f"{name[: LONGEST_NAME - 5]}_{n}", n + 1
    return found


def told(given: Any) -> tuple[Schema, dict[str, str]]:
    """A schema that every endpoint takes, and the server's names of those parameters that cannot be called so.

    References are written out. What is too long, nested too deeply or no schema is left out: the server still checks.
    """
    root = given if isinstance(given, Mapping) else {}
    properties = root.get("properties")
    renamed: dict[str, str] = {}
    found: dict[str, Schema] = {}
    required = []
    for name, prop in properties.items() if isinstance(properties, Mapping) else ():
        called = unused(identifier(name, "p"), found)
        found[called] = _Writer(root).written(prop)
        if called != name:
            renamed[called] = name
        if isinstance(listed := root.get("required"), Sequence) and name in listed:
            required.append(called)
    schema: Schema = {"type": "object", "properties": _bounded(found), "required": required}
    if root.get("additionalProperties"):
        schema["additionalProperties"] = True
    return schema, renamed


def _bounded(properties: dict[str, Schema]) -> dict[str, Schema]:
    """The same, or only what the parameters are if that is too long."""
    if len(json.dumps(properties, default=str)) <= _LONGEST_SCHEMA:
        return properties
    return {name: {"type": prop["type"]} if "type" in prop else {} for name, prop in properties.items()}


class _Writer:
    """Writes a part of a schema without references; of one that has too many parts, the rest is left out.

    Args:
        root: The schema, in which references are looked up.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._n_parts = 0
        self._within: list[str] = []  # the references that are being written out

    def written(self, part: Any, depth: int = 0) -> Schema:
        """A part of the schema; empty, which allows anything, for what is none."""
        self._n_parts += 1
        if not isinstance(part, Mapping) or depth > _DEEPEST or self._n_parts > _MOST_PARTS:
            return {}
        if isinstance(reference := part.get("$ref"), str):
            beside = {name: value for name, value in part.items() if name != "$ref"}
            return {**self._referred(reference, depth + 1), **self.written(beside, depth + 1)}
        if isinstance(types := part.get("type"), list):
            rest = {name: value for name, value in part.items() if name != "type"}
            return self.written({**rest, "anyOf": [{"type": one} for one in types]}, depth + 1)
        return {name: value for name, one in part.items() if (value := self._value(name, one, depth)) is not None}

    def _referred(self, reference: str, depth: int) -> Schema:
        """What a reference stands for; empty where that refers to itself, and for one that leads nowhere."""
        if reference in self._within:
            return {}
        found: Any = self._root
        for step in reference.removeprefix("#/").split("/"):
            found = found.get(step) if isinstance(found, Mapping) else None
        self._within.append(reference)
        try:
            return self.written(found, depth)
        finally:
            self._within.pop()

    def _value(self, name: str, value: Any, depth: int) -> Any:
        """What a keyword says; None if it is left out."""
        if name == "properties" and isinstance(value, Mapping):
            return {str(key): self.written(one, depth + 1) for key, one in value.items()}
        if name in {"items", "additionalProperties"} and isinstance(value, Mapping):
            return self.written(value, depth + 1)
        if name in {"anyOf", "oneOf", "allOf"} and isinstance(value, list):
            return [self.written(one, depth + 1) for one in value if isinstance(one, Mapping)] or None
        if name == "description" and isinstance(value, str):
            return visible(value)[:_LONGEST_DESCRIPTION]
        if name == "type" and value not in _TYPES:
            return None
        return value if isinstance(value, _PLAIN.get(name, _FIGURE)) else None


# --- what calls are held against -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads a value before its type is looked at; shown in signatures by its name."""

    name: str
    read: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __repr__(self) -> str:
        return self.name


def _kind(prop: Schema) -> Any:
    """The type that values of a parameter are held against; `Any` where that is for the server to say."""
    if "enum" in prop or "const" in prop:
        return Annotated[Any, _Reading("one of several", _Choice(prop.get("enum", [prop.get("const")])))]
    alternatives = prop.get("anyOf", prop.get("oneOf"))
    if alternatives is not None:
        kinds = list(map(_kind, alternatives))
        return Any if Any in kinds else reduce(or_, kinds)
    if prop.get("type") == "array":
        return list[_kind(prop.get("items", {}))]  # type: ignore[misc]  # the type is not known before
    if prop.get("type") == "object":
        return Annotated[dict[str, Any], _Reading("JSON", _from_json)]
    if prop.get("type") == "number":
        return Annotated[int | float, _Reading("number", _number)]
    return _KINDS.get(prop.get("type"), Any)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Takes one of these values, or its JSON where a text stands for it."""

    values: Sequence[Any]

    def __call__(self, given: Any) -> Any:
        for value in self.values:
            if type(value) is type(given) and value == given:
                return value
        for value in self.values:
            if json.dumps(value, ensure_ascii=False) == given:
                return value
        known = ", ".join(json.dumps(value, ensure_ascii=False) for value in self.values[:_MOST_CHOICES_TOLD])
        raise ValueError(f"it must be one of {known}")


def _number(given: Any) -> int | float:
    """The number, whole if it is written so."""
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return given
    found = _NUMBER.fullmatch(given) if isinstance(given, str) else None
    if found is not None and math.isfinite(float(given)):
        return float(given) if any(found.groups()) else int(given)
    raise ValueError("it must be a number")


def _from_json(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError):
        raise ValueError("it must be a JSON object") from None
