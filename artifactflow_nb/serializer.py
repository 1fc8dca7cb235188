"""How checkpoints are written: objects only if they will be read back as objects of their classes.

LangGraph's own serializer makes plain mappings and texts, in silence, of objects whose classes it was not told of, and
nothing at all of numpy's arrays of objects.
"""

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import ormsgpack
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES
from langgraph.checkpoint.serde.jsonplus import (
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_NUMPY_ARRAY,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
    JsonPlusSerializer,
)

from artifactflow_nb.errors import StoreError
from artifactflow_nb.kept import Kept

_CONSTRUCTED = {
    EXT_CONSTRUCTOR_SINGLE_ARG,
    EXT_CONSTRUCTOR_POS_ARGS,
    EXT_CONSTRUCTOR_KW_ARGS,
    EXT_PYDANTIC_V1,
    EXT_PYDANTIC_V2,
}
_PLAIN_ITEMS = frozenset("biufcSUmM")
"""The kinds of numpy's items that are nothing but their bytes."""

_DEEPEST = 12
"""How far down a value that cannot be written is looked for."""


class Unwritable(TypeError):
    """A value would not come back as it was; the message says of what type it is."""


class CheckedSerializer(JsonPlusSerializer):
    """LangGraph's serializer, which is strict whatever the environment says, and refuses what it could not read back.

    A graph adds the classes of its state with `with_msgpack_allowlist`.

    Errors: `TypeError` for what cannot be written, as LangGraph has it; `Unwritable` is one.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=[Kept])

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """A value as bytes, with the name of their form."""
        kind, packed = super().dumps_typed(obj)
        if kind == "msgpack":
            try:
                unknown = [name for name in _classes(packed) if not self._is_known(*name)]
            except ValueError as error:
                raise Unwritable(f"It could not be read back: {error}") from None
            if unknown:
                raise Unwritable(f"{'.'.join(unknown[0])} is no class that the state of the graph names.")
        return kind, packed

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """A value of its bytes; `StoreError` for an object of a class that the graph's state does not name here."""
        if data[0] == "msgpack":
            for module, name in _classes(data[1]):
                if not self._is_known(module, name):
                    raise StoreError(
                        f"A checkpoint has an object of the class {module}.{name}, which the state of the graph that "
                        "is registered here does not name. Register the graph that the run was begun with."
                    )
        return super().loads_typed(data)

    def writes(self, value: Any) -> bool:
        """Whether a value can be written and read back."""
        try:
            self.dumps_typed(value)
        except TypeError:
            return False
        return True

    def culprit(self, where: str, value: Any) -> tuple[str, str]:
        """Where in a value that cannot be written the part is that cannot, and the name of its type."""
        for _ in range(_DEEPEST):
            part = next(((step, one) for step, one in _parts(value) if not self.writes(one)), None)
            if part is None:
                break
            where, value = f"{where}{part[0]}", part[1]
        return where, type(value).__name__

    def _is_known(self, module: str, name: str) -> bool:
        if (module, name) in SAFE_MSGPACK_TYPES:
            return True
        allowed = self._allowed_msgpack_modules
        is_allowed = isinstance(allowed, set) and (module, name) in allowed
        return is_allowed and hasattr(sys.modules.get(module), name)


def _classes(packed: bytes) -> set[tuple[str, str]]:
    """The classes of all objects in a packed value, however deep."""
    found: set[tuple[str, str]] = set()

    def look(code: int, data: bytes) -> None:
        inner = ormsgpack.unpackb(data, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)
        if code in _CONSTRUCTED:
            found.add((inner[0], inner[1]))
        elif code == EXT_NUMPY_ARRAY and inner[0][1] not in _PLAIN_ITEMS:
            found.add(("numpy", f"ndarray of {inner[0]}"))

    ormsgpack.unpackb(packed, ext_hook=look, option=ormsgpack.OPT_NON_STR_KEYS)
    return found


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What a value consists of, with the way to each part."""
    if isinstance(value, Mapping):
        yield from ((f"[{key!r:.40}]", one) for key, one in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{n}]", one) for n, one in enumerate(value))
    else:
        yield from ((f".{name}", getattr(value, name, None)) for name in _fields(value))


def _fields(value: Any) -> Iterable[str]:
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return getattr(type(value), "model_fields", ())
