"""What the frames can be narrowed down by: runs, conversations, times, a status; each is checked and bound for SQL."""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol

from artifactflow_nb.errors import UsageError
from artifactflow_nb.frames.columns import Frame
from artifactflow_nb.store.runs import CANCELLED, COMPLETED, FAILED, INTERRUPTED, RUNNING, WAITING
from artifactflow_nb.store.schema import to_us
from artifactflow_nb.store.storable import to_json

STATUSES = (RUNNING, WAITING, COMPLETED, FAILED, CANCELLED, INTERRUPTED)


class OfRun(Protocol):
    """What knows its run: a `Run`, a request, an artifact's version."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        ...


class OfConversation(Protocol):
    """What knows its conversation: a `Run`, a `Conversation`, a message."""

    @property
    def conversation_id(self) -> str:
        """The id of the conversation."""
        ...


class Named(Protocol):
    """What has a name: a `Project`."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


Runs = OfRun | str | Iterable[OfRun | str] | None
Conversations = OfConversation | str | Iterable[OfConversation | str] | None
Projects = Named | str | Iterable[Named | str] | None
When = datetime | timedelta | str | None
Statuses = str | Iterable[str] | None
Columns = str | Iterable[str] | None


def of_list(expression: str, name: str) -> str:
    """The condition that an expression is among the values of a filter."""
    return f"{expression} IN (SELECT value FROM json_each(:{name}))"  # noqa: S608 - both are constants of this package


def of_time(expression: str) -> dict[str, str]:
    """The filters by a time."""
    return {"since": f"{expression} >= :since", "until": f"{expression} < :until"}


def of_run(table: str, time: str) -> dict[str, str]:
    """The filters of rows that belong to a run."""
    runs = f"SELECT run_id FROM main.runs WHERE {of_list('conversation_id', 'conversation')}"  # noqa: S608 - constants
    return {
        "run": of_list(f"{table}.run_id", "run"),
        "conversation": f"{table}.run_id IN ({runs})",
        **of_time(f"{table}.{time}"),
    }


def bound(frame: Frame, given: Mapping[str, object]) -> dict[str, str | int]:
    """The values of the filters that are given, as SQL takes them; one that is None is not given.

    Errors: `UsageError` for a filter that the frame does not have, and for a value that cannot be used.
    """
    wanted = {name: value for name, value in given.items() if value is not None}
    for name in wanted:
        if name not in frame.filters:
            raise UsageError(f"The frame {frame.name} has no filter {name!r}; it has: {', '.join(frame.filters)}.")
    times: dict[str, int] = {name: moment(name, wanted.pop(name)) for name in ("since", "until") if name in wanted}
    if times.get("since", -math.inf) > times.get("until", math.inf):
        raise UsageError(f"since is {given['since']!r}, which is after until, {given['until']!r}. Swap them.")
    flags = {name: int(bool(wanted.pop(name))) for name in ("is_active",) if name in wanted}
    texts = {name: to_json(_texts(name, value)) for name, value in wanted.items()}
    return {**texts, **times, **flags}


def moment(name: str, value: object) -> int:
    """Microseconds since 1970 of a time: aware, or naive in UTC; in ISO format; or so long ago.

    Errors: `UsageError` with the name and the value for anything else.
    """
    try:
        time = _time(value)
        return int(to_us(time if time.tzinfo is not None else time.replace(tzinfo=UTC)))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"{name} is {value!r}, which is no time. Pass a datetime (a naive one is taken as UTC), its ISO format "
            "such as '2026-03-01T12:00', or a timedelta back from now."
        ) from error


def _time(value: object) -> datetime:
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    if isinstance(value, timedelta):
        return datetime.now(UTC) - value
    if isinstance(value, datetime):
        return value
    raise TypeError(type(value).__name__)


def _texts(name: str, value: object) -> list[str]:
    """The ids or statuses that a filter names: one, or any number of them; objects stand for their ids."""
    known_by = "name" if name == "project" else f"{name}_id"
    single = isinstance(value, str) or (hasattr(value, known_by) and name != "project")
    several = list(value) if isinstance(value, Iterable) and not single else [value]
    return [_text(name, getattr(one, known_by, one)) for one in several]


def _text(name: str, text: object) -> str:
    if not isinstance(text, str):
        raise UsageError(f"{name} is {text!r}, which is {type(text).__name__}; {_WANTED[name]}")
    if name == "status" and text not in STATUSES:
        raise UsageError(f"status is {text!r}; {_WANTED[name]}")
    return text


_WANTED = {
    "run": "pass a Run, the id of a run, or a list of them.",
    "conversation": "pass the id of a conversation, a Run of it, or a list of them.",
    "project": "pass a Project, the name of one, or a list of them.",
    "status": f"pass one or several of {', '.join(STATUSES)}.",
}
