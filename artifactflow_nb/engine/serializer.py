"""A serializer of checkpoints that rejects objects which could not be read back as instances of their classes.

LangGraph's own serializer silently turns objects of unknown classes into mappings and texts, and numpy's arrays of
objects into nothing.
"""

import dataclasses
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import ormsgpack
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_NUMPY_ARRAY,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)

from artifactflow_nb.core.redaction.redactor import SHORTEST_WORD
from artifactflow_nb.errors import StoreError
from artifactflow_nb.flows.known_secrets import KnownSecrets, SecretLookup

_CONSTRUCTED = {
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
}
_MESSAGES = ("AI", "Chat", "Function", "Human", "System", "Tool")
_READABLE = frozenset(
    (module, name)
    for module, names in {
        "builtins": "frozenset set",
        "collections": "deque",
        "datetime": "date datetime time timedelta timezone",
        "decimal": "Decimal",
        "ipaddress": "IPv4Address IPv4Interface IPv4Network IPv6Address IPv6Interface IPv6Network",
        "pathlib": "Path PosixPath WindowsPath",
        "pathlib._local": "Path PosixPath WindowsPath",  # Python 3.13
        "re": "compile",
        "uuid": "UUID",
        "zoneinfo": "ZoneInfo",
        "langchain_core.documents.base": "Document",
        "langchain_core.messages.base": "BaseMessage BaseMessageChunk",
        "langchain_core.messages.modifier": "RemoveMessage",
        **{f"langchain_core.messages.{name.lower()}": f"{name}Message {name}MessageChunk" for name in _MESSAGES},
        "langgraph.types": "Command Interrupt Overwrite PregelTask Send StateSnapshot TimeoutPolicy",
        "langgraph.store.base": "GetOp Item",
    }.items()
    for name in names.split()
)
"""Classes that every state may contain: the classes that LangGraph reads in its strict mode."""

_PLAIN_ITEMS = frozenset("biufcSUmM")
"""The kinds of numpy's items that consist of their bytes only."""

_MAX_SEARCH_DEPTH = 12
"""Levels down to which `find_unserializable` looks into a value."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The entry of a checkpoint for a value that cannot be serialized and stays in memory.

    Attributes:
        path: The path of the unserializable part of the state in code, such as `messages[2].artifact`.
        kind: The name of the type of the part.
    """

    token: str
    path: str
    kind: str


class UnserializableValue(TypeError):
    """A value could not be read back unchanged; the message names its type."""


class CheckedSerializer(JsonPlusSerializer):
    """LangGraph's serializer, always in strict mode; rejects values that could not be read back.

    A graph adds the classes of its state with `with_msgpack_allowlist`. Known secrets are masked in texts; bytes that
    contain a secret are refused.

    Errors: `TypeError` for a value that cannot be written, as in LangGraph; `UnserializableValue` is a subclass.
    """

    def __init__(self, secrets: SecretLookup | None = None) -> None:
        self._readable: frozenset[tuple[str, ...]] = _READABLE | {(Placeholder.__module__, Placeholder.__name__)}
        super().__init__(allowed_msgpack_modules=self._readable)
        self._secrets = secrets or SecretLookup()
        self._copies: dict[frozenset[tuple[str, ...]], Self] = {}

    def with_msgpack_allowlist(self, extra_allowlist: Iterable[tuple[str, ...] | type]) -> Self:
        """Return a copy that also reads these classes; cached, because LangGraph asks for the copy in each run."""
        classes = frozenset(
            cls if isinstance(cls, tuple) else (cls.__module__, cls.__name__) for cls in extra_allowlist
        )
        if (extended := self._copies.get(classes)) is None:
            extended = self._copies[classes] = cast("Self", super().with_msgpack_allowlist(classes))
            extended._readable, extended._copies = self._readable | classes, {}  # noqa: SLF001 - a copy of this object
        return extended

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Serialize a value; return the name of the format and the bytes."""
        kind, packed = super().dumps_typed(obj)
        if kind == "msgpack":
            try:
                unknown = [name for name in _classes(packed) if not self._is_known(*name)]
            except ValueError as error:
                raise UnserializableValue(f"The value could not be read back: {error}") from None
            if unknown:
                raise UnserializableValue(f"{'.'.join(unknown[0])} is not in the annotations of the graph's state.")
        secrets = self._secrets.current
        if secrets.are_in(packed):
            packed = _masked(secrets, packed) if kind == "msgpack" else packed
            if secrets.are_in(packed, SHORTEST_WORD):
                raise UnserializableValue("The value has bytes with a secret of the settings, which cannot be masked.")
        return kind, packed

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read a value; `StoreError` for an object of a class that the state of the graph does not name."""
        if data[0] == "msgpack":
            for module, name in _classes(data[1]):
                if not self._is_known(module, name):
                    raise StoreError(
                        f"A checkpoint has an object of the class {module}.{name}, which is not in the annotations of "
                        "the registered graph's state. Register the graph with which the run started."
                    )
        return super().loads_typed(data)

    def can_serialize(self, value: Any) -> bool:
        """Return whether a value can be written and read back."""
        try:
            self.dumps_typed(value)
        except TypeError:
            return False
        return True

    def find_unserializable(self, path: str, value: Any) -> tuple[str, str]:
        """Find the innermost part of a value that cannot be written; return its path and the name of its type."""
        for _ in range(_MAX_SEARCH_DEPTH):
            part = next((step for step in _parts(value) if not self.can_serialize(step[1])), None)
            if part is None:
                break
            path, value = f"{path}{part[0]}", part[1]
        return path, type(value).__name__

    def _is_known(self, module: str, name: str) -> bool:
        if (module, name) in _READABLE:
            return True
        return (module, name) in self._readable and hasattr(sys.modules.get(module), name)


def _classes(packed: bytes) -> set[tuple[str, str]]:
    """Return the modules and names of the classes of all objects in a packed value, at all levels."""
    classes: set[tuple[str, str]] = set()

    def look(code: int, data: bytes) -> None:
        inner = ormsgpack.unpackb(data, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)
        if code in _CONSTRUCTED:
            classes.add((inner[0], inner[1]))
        elif code == EXT_NUMPY_ARRAY and inner[0][1] not in _PLAIN_ITEMS:
            classes.add(("numpy", f"ndarray of {inner[0]}"))

    ormsgpack.unpackb(packed, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)
    return classes


def _masked(secrets: KnownSecrets, packed: bytes) -> bytes:
    """Mask the secrets in the texts of a packed value, including texts within objects."""

    def mask_object(code: int, data: bytes) -> ormsgpack.Ext:
        return ormsgpack.Ext(code, _masked(secrets, data))

    value = ormsgpack.unpackb(packed, ext_hook=mask_object, option=ormsgpack.OPT_NON_STR_KEYS)
    return ormsgpack.packb(secrets.value(value), option=ormsgpack.OPT_NON_STR_KEYS)


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Return the parts of a value, each with its step in the path."""
    if isinstance(value, Mapping):
        return [(f"[{key!r:.40}]", part) for key, part in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [(f"[{n}]", part) for n, part in enumerate(value)]
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    else:
        names = list(getattr(type(value), "model_fields", ()))
    return [(f".{name}", getattr(value, name, None)) for name in names]
