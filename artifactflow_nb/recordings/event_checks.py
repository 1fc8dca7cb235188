"""Whether the payload of an event that comes from a file is such as views and plots read."""

from collections.abc import Mapping
from typing import Any

from artifactflow_nb.events import StreamEventType as Kind

_NEEDED = {
    Kind.TOOL_START: ("tool_call_id",),
    Kind.TOOL_COMPLETE: ("tool_call_id",),
    Kind.PERMISSION_REQUEST: ("id",),
    Kind.PERMISSION_RESULT: ("id",),
    Kind.ARTIFACT_CHANGED: ("artifact_id", "version"),
}
"""What a payload of a kind does not go without."""

_TYPES = {
    **dict.fromkeys(("tool_call_id", "id", "job_id", "call_id", "artifact_id", "model", "question"), str),
    **dict.fromkeys(("version", "step"), int),
    **dict.fromkeys(("params", "metadata", "token_usage", "execution_metrics", "context"), dict),
}
"""Of what type a value is, where there is one."""

_NUMBERS = ("_ms", "_usd", "_tokens")
"""How the names of numbers end."""


def flaw_of(kind: str, data: Mapping[str, Any]) -> str | None:
    """What is wrong with the payload of an event of a known kind; None if nothing is."""
    for name in _NEEDED.get(Kind(kind), ()):
        if data.get(name) is None:
            return f"its data has no {name}"
    for name, value in data.items():
        if value is not None and not (_is_number(value) if name.endswith(_NUMBERS) else _fits(name, value)):
            return f"{name} in its data is {str(value)[:80]!r}"
    usage: Mapping[str, Any] = data.get("token_usage") or {}
    tokens = {name: value for name, value in usage.items() if name.endswith(_NUMBERS) and value is not None}
    wrong = [name for name, value in tokens.items() if not _is_number(value)]
    return f"{wrong[0][:80]} in its token_usage is no number" if wrong else None


def _fits(name: str, value: Any) -> bool:
    return isinstance(value, _TYPES.get(name, object)) and not (_TYPES.get(name) is int and isinstance(value, bool))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
