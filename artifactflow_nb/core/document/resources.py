"""Named resources of a project besides its blocks: personas, skills, dimensions and grades.

Each is an artifact of the project's conversation, identified by its media type; names are unique per type.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Generic, Protocol, TypeVar

import orjson

from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.errors import UsageError


class NamedValue(Protocol):
    """A value with a name."""

    @property
    def name(self) -> str:
        """The name of the value."""


V = TypeVar("V", bound=NamedValue)


@dataclass(frozen=True, slots=True)
class ResourceType(Generic[V]):
    """A type of resource.

    Attributes:
        noun: Noun for messages.
        media_type: Media type of its artifacts.
        read: Parses the stored text; raises `UsageError` if it is invalid.
        write: Serialises a value.
    """

    noun: str
    media_type: str
    read: Callable[[str], V]
    write: Callable[[V], str]


def json_resource(noun: str, media_type: str, value_type: type[V]) -> ResourceType[V]:
    """Create the type of resources that are dataclasses; their artifacts hold the fields as JSON."""

    def read(text: str) -> V:
        try:
            return value_type(**orjson.loads(text))
        except (TypeError, ValueError, UsageError) as error:
            raise UsageError(f"It is not a {noun} ({error}).") from None

    def write(value: V) -> str:
        return orjson.dumps(asdict(value), option=orjson.OPT_INDENT_2).decode()  # type: ignore[call-overload]  # a dataclass

    return ResourceType(noun, media_type, read, write)


@dataclass(frozen=True, slots=True)
class StoredResource(Generic[V]):
    """Current state of a stored resource.

    Attributes:
        artifact_id: Id of its artifact.
        value: The value.
        version: Number of the current version.
        created_by: Author of the current version.
    """

    artifact_id: str
    value: V
    version: int
    created_by: str


def find_resource(resources: Iterable[StoredResource[V]], name: str, noun: str) -> StoredResource[V]:
    """Find a stored resource by name; `UsageError` with similar names if there is none."""
    by_name = {resource.value.name: resource for resource in resources}
    return by_name[find_named((resource.value for resource in by_name.values()), name, noun).name]


def find_named(known: Iterable[V], name: str, noun: str) -> V:
    """Find a value by name, ignoring case and white space; `UsageError` with similar names if there is none."""
    by_name = {value.name.casefold(): value for value in known}
    if (match := by_name.get(" ".join(str(name).split()).casefold())) is not None:
        return match
    names = [value.name for value in by_name.values()]
    near = get_close_matches(name, names, n=5, cutoff=0.5) or names[:20]
    raise UsageError(f"There is no {noun} {name!r:.140}. There are: {', '.join(near) or 'none yet'}.")


def check_name_is_free(resources: Iterable[StoredResource[V]], name: str, noun: str, except_id: str = "") -> None:
    """Raise `UsageError` if another artifact than `except_id` has this name."""
    for resource in resources:
        if resource.value.name.casefold() == name.casefold() and resource.artifact_id != except_id:
            raise UsageError(f"There is a {noun} {resource.value.name!r} already. Change it, or choose another name.")


def with_fields(value: V, changes: Mapping[str, str | None]) -> V:
    """Copy with the non-None fields replaced; `UsageError` for an unknown field."""
    known = {field.name for field in fields(value)}  # type: ignore[arg-type]  # values are dataclasses
    if unknown := [name for name in changes if name not in known]:
        raise UsageError(f"There is no {unknown[0]!r} to set. There are: {', '.join(sorted(known))}.")
    return replace(value, **{name: text for name, text in changes.items() if text is not None})  # type: ignore[type-var]


def validate_line(value: str, label: str, max_chars: int) -> str:
    """Normalise a single-line text for storage; `UsageError` if it is empty or too long."""
    text = " ".join(storable_text(value).split()) if isinstance(value, str) else ""
    if not text or len(text) > max_chars:
        raise UsageError(f"{label} is {value!r:.80}; it must be text of 1 to {max_chars} characters.")
    return text


def validate_text(value: str, label: str, max_chars: int) -> str:
    """Normalise a text for storage; `UsageError` if it is too long."""
    text = storable_text(value).strip() if isinstance(value, str) else None
    if text is None or len(text) > max_chars:
        size = f"has {len(value)} characters" if isinstance(value, str) else f"is {type(value).__name__}"
        raise UsageError(f"{label} {size}; it must be text of at most {max_chars} characters.")
    return text


def replace_texts(value: object, **fields: object) -> None:
    """Replace fields of a frozen dataclass by their normalised texts, in its `__post_init__`."""
    for name, text in fields.items():
        object.__setattr__(value, name, text)


def resource_values(resources: Sequence[StoredResource[V]]) -> tuple[V, ...]:
    """Return the values of stored resources."""
    return tuple(resource.value for resource in resources)
