"""Filters of the frames: validation of their values, and their SQL conditions."""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol

from artifactflow_nb.analysis.frames.columns import Frame
from artifactflow_nb.errors import UsageError
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.store.migrations import to_microseconds
from artifactflow_nb.store.runs import CANCELLED, COMPLETED, FAILED, INTERRUPTED, RUNNING, WAITING

STATUSES = (RUNNING, WAITING, COMPLETED, FAILED, CANCELLED, INTERRUPTED)


class HasRunId(Protocol):
    """An object of a run: a `Run`, an approval request, a version of an artifact."""

    @property
    def run_id(self) -> str:
        """Id of the run."""
        ...


class HasConversationId(Protocol):
    """An object of a conversation: a `Run`, a `Conversation`, a message."""

    @property
    def conversation_id(self) -> str:
        """Id of the conversation."""
        ...


class HasName(Protocol):
    """An object with a name: a `Project`."""

    @property
    def name(self) -> str:
        """Name of the object."""
        ...


RunFilter = HasRunId | str | Iterable[HasRunId | str] | None
ConversationFilter = HasConversationId | str | Iterable[HasConversationId | str] | None
ProjectFilter = HasName | str | Iterable[HasName | str] | None
TimeFilter = datetime | timedelta | str | None
StatusFilter = str | Iterable[str] | None
ColumnSelection = str | Iterable[str] | None


def list_condition(expression: str, name: str) -> str:
    """SQL condition that an expression is among the values of a filter, which are bound as a JSON list."""
    return f"{expression} IN (SELECT value FROM json_each(:{name}))"  # noqa: S608 - both are constants of this package


def time_filters(expression: str) -> dict[str, str]:
    """SQL conditions of `since` (inclusive) and `until` (exclusive)."""
    return {"since": f"{expression} >= :since", "until": f"{expression} < :until"}


def run_filters(table: str, time: str) -> dict[str, str]:
    """SQL conditions for rows of a table with a `run_id`."""
    runs = f"SELECT run_id FROM main.runs WHERE {list_condition('conversation_id', 'conversation')}"  # noqa: S608 - constants
    return {
        "run": list_condition(f"{table}.run_id", "run"),
        "conversation": f"{table}.run_id IN ({runs})",
        **time_filters(f"{table}.{time}"),
    }


def bind_filters(frame: Frame, values: Mapping[str, object]) -> dict[str, str | int]:
    """Convert the values of the filters to SQL parameters; filters that are None are dropped.

    Errors: `UsageError` for a filter that the frame does not have, or an invalid value.
    """
    # `wanted` ends up with the filters by id, name or status: times and flags are popped from it.
    wanted = {name: value for name, value in values.items() if value is not None}
    for name in wanted:
        if name not in frame.filters:
            raise UsageError(f"The frame {frame.name} has no filter {name!r}; it has: {', '.join(frame.filters)}.")
    times: dict[str, int] = {name: parse_time(name, wanted.pop(name)) for name in ("since", "until") if name in wanted}
    if times.get("since", -math.inf) > times.get("until", math.inf):
        raise UsageError(f"since is {values['since']!r}, which is after until, {values['until']!r}. Swap them.")
    flags = {name: int(bool(wanted.pop(name))) for name in ("is_active",) if name in wanted}
    texts = {name: to_json(_texts(name, value)) for name, value in wanted.items()}
    return {**texts, **times, **flags}


def parse_time(name: str, value: object) -> int:
    """Convert a datetime (naive means UTC), an ISO string, or a timedelta before now to microseconds since 1970.

    Args:
        name: Name of the argument, for the error.
        value: The time.

    Errors: `UsageError` with the name and the value for anything else.
    """
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
        time = datetime.now(UTC) - time if isinstance(time, timedelta) else time
        if not isinstance(time, datetime):
            raise TypeError(type(value).__name__)
        return int(to_microseconds(time if time.tzinfo is not None else time.replace(tzinfo=UTC)))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"{name} is {value!r}, which is not a time. Pass a datetime (naive means UTC), an ISO string such as "
            "'2026-03-01T12:00', or a timedelta before now."
        ) from error


def _texts(name: str, value: object) -> list[str]:
    """Ids, project names or statuses of a filter, from one value or an iterable of texts and handles."""
    attribute = "name" if name == "project" else f"{name}_id"
    # Many iterables have a `name`, a pandas Series for example, so only an id marks an iterable as a single object.
    is_single = isinstance(value, str) or (hasattr(value, attribute) and name != "project")
    items = list(value) if isinstance(value, Iterable) and not is_single else [value]
    texts = []
    for item in items:
        text = getattr(item, attribute, item)
        if not isinstance(text, str):
            raise UsageError(f"{name} is {text!r}, which is {type(text).__name__}; {_VALUE_HINTS[name]}")
        if name == "status" and text not in STATUSES:
            raise UsageError(f"status is {text!r}; {_VALUE_HINTS[name]}")
        texts.append(text)
    return texts


_VALUE_HINTS = {
    "run": "pass a Run, the id of a run, or a list of them.",
    "conversation": "pass the id of a conversation, a Run of it, or a list of them.",
    "project": "pass a Project, the name of one, or a list of them.",
    "status": f"pass one or several of {', '.join(STATUSES)}.",
}
