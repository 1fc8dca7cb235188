"""What a server lists, as the SDK takes it: it refuses a whole list for one tool that is not as the protocol has it."""

from collections.abc import Mapping
from typing import Any

_NONE = {"type": "object"}


class Listing:
    """Mends the lists of tools that a server sends, and keeps the schemas that it sent.

    A tool whose schema the protocol does not allow goes on with an empty one, and one without a name is left out.

    Attributes:
        schemas: What was sent for the parameters of each tool that was mended, by its name.
    """

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}

    def mend(self, message: Any) -> None:
        """Mend what a message lists, if it is the answer to who asked for tools."""
        result = getattr(getattr(message, "message", None), "result", None)
        if isinstance(result, dict) and isinstance(result.get("tools"), list):
            named = [one for one in result["tools"] if isinstance(one, Mapping) and isinstance(one.get("name"), str)]
            result["tools"] = [self._mended(one) for one in named]

    def _mended(self, one: Mapping[str, Any]) -> dict[str, Any]:
        self.schemas.pop(one["name"], None)
        mended = dict(one)
        if not isinstance(one.get("description", ""), str):
            del mended["description"]
        if not _is_allowed(schema := one.get("inputSchema")):
            self.schemas[one["name"]], mended["inputSchema"] = schema, _NONE
        return mended


def _is_allowed(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return False
    required = schema.get("required", [])
    return (
        isinstance(schema.get("properties", {}), Mapping)
        and isinstance(required, list)
        and all(isinstance(name, str) for name in required)
    )
