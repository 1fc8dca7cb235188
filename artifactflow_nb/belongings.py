"""What belongs to a project beside its blocks and is known by a name: for whom it is written, and how.

Each is an artifact of the project's conversation, told from others by its media type; a name stands once among its
kind. Values only.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Generic, Protocol, TypeVar

from artifactflow_nb.errors import UsageError


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str:
        """Its name."""


V = TypeVar("V", bound=Named)


@dataclass(frozen=True, slots=True)
class Kind(Generic[V]):
    """A kind of belongings.

    Attributes:
        noun: What one is called.
        media_type: The media type of its artifacts.
        read: The value that a text is; `UsageError` for one that is none.
        write: The text that a value is stored as.
    """

    noun: str
    media_type: str
    read: Callable[[str], V]
    write: Callable[[V], str]


@dataclass(frozen=True, slots=True)
class Held(Generic[V]):
    """One of a project's belongings as it stands.

    Attributes:
        artifact_id: Its artifact.
        value: What it is.
        version: The number of its present version.
        created_by: Who wrote that.
    """

    artifact_id: str
    value: V
    version: int
    created_by: str


def named(held: Iterable[Held[V]], name: str, noun: str) -> Held[V]:
    """The one that is meant by a name; `UsageError` for none, with the nearest."""
    found = {one.value.name: one for one in held}
    return found[named_value(values(list(found.values())), name, noun).name]


def named_value(known: Iterable[V], name: str, noun: str) -> V:
    """The value that is meant by a name; `UsageError` for none, with the nearest."""
    found = {one.name.casefold(): one for one in known}
    if (one := found.get(" ".join(str(name).split()).casefold())) is not None:
        return one
    names = [one.name for one in found.values()]
    near = get_close_matches(name, names, n=5, cutoff=0.5) or names[:20]
    raise UsageError(f"There is no {noun} {name!r:.140}. There are: {', '.join(near) or 'none yet'}.")


def check_free(held: Iterable[Held[V]], name: str, noun: str, but: str = "") -> None:
    """`UsageError` if another than the artifact `but` has the name."""
    for one in held:
        if one.value.name.casefold() == name.casefold() and one.artifact_id != but:
            raise UsageError(f"There is a {noun} {one.value.name!r} already. Change it, or choose another name.")


def changed(value: V, given: Mapping[str, str | None]) -> V:
    """The value with what is given of its fields; None leaves one as it is."""
    known = {field.name for field in fields(value)}  # type: ignore[arg-type]  # values are dataclasses
    if unknown := [name for name in given if name not in known]:
        raise UsageError(f"There is no {unknown[0]!r} to set. There are: {', '.join(sorted(known))}.")
    return replace(value, **{name: text for name, text in given.items() if text is not None})  # type: ignore[type-var]


def one_line(value: str, what: str, most: int) -> str:
    """A text of one line as it is stored; `UsageError` for an empty one, and one that is too long."""
    told = " ".join(encodable(value).split()) if isinstance(value, str) else ""
    if not told or len(told) > most:
        raise UsageError(f"{what} is {value!r:.80}; it must be text of 1 to {most} characters.")
    return told


def some_text(value: str, what: str, most: int) -> str:
    """A text as it is stored; `UsageError` for one that is too long."""
    told = encodable(value).strip() if isinstance(value, str) else None
    if told is None or len(told) > most:
        size = f"has {len(value)} characters" if isinstance(value, str) else f"is {type(value).__name__}"
        raise UsageError(f"{what} {size}; it must be text of at most {most} characters.")
    return told


def encodable(text: str) -> str:
    """The text without what no encoding can hold."""
    return text.encode("utf-8", "replace").decode()


def values(held: Sequence[Held[V]]) -> tuple[V, ...]:
    """What they are."""
    return tuple(one.value for one in held)
