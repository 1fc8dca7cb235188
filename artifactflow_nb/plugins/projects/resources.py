"""Named resources of a project other than blocks: personas, skills, dimensions and grades.

Each is an artifact of the project's conversation, identified by its media type; names are unique per type.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import orjson
import yaml

from artifactflow_nb.core.local_files import read_text
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.core.text.yaml_text import load_yaml
from artifactflow_nb.errors import UsageError, brief


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
        read: Parses the stored text; raises `UsageError` if it is invalid.
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
    """Current state of a stored resource."""

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
    raise UsageError(f"There is no {noun} {brief(name)}. There are: {', '.join(near) or 'none yet'}.")


def check_name_is_free(resources: Iterable[StoredResource[V]], name: str, noun: str, except_id: str = "") -> None:
    """Raise `UsageError` if an artifact other than `except_id` has this name."""
    for resource in resources:
        if resource.value.name.casefold() == name.casefold() and resource.artifact_id != except_id:
            raise UsageError(f"There is a {noun} {resource.value.name!r} already. Change it, or choose another name.")


def with_fields(value: V, changes: Mapping[str, str | None]) -> V:
    """Copy with the non-None fields replaced; `UsageError` for an unknown field."""
    known = {field.name for field in fields(value)}  # type: ignore[arg-type]  # values are dataclasses
    if unknown := [name for name in changes if name not in known]:
        raise UsageError(f"There is no field {brief(unknown[0])}. There are: {', '.join(sorted(known))}.")
    return replace(value, **{name: text for name, text in changes.items() if text is not None})  # type: ignore[type-var]


def validate_line(value: str, label: str, max_chars: int) -> str:
    """Normalise a single-line text for storage; `UsageError` if it is empty or too long."""
    text = " ".join(storable_text(value).split()) if isinstance(value, str) else ""
    if not text or len(text) > max_chars:
        raise UsageError(f"{label} is {brief(value)}; it must be text of 1 to {max_chars} characters.")
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


SKILLS_FOLDER = "skills"
"""Name of the folder with shared skills in the data folder."""

SKILLS_SETTING = "skills"
"""Run setting with the shared skills at the start of the run."""

MAX_SKILL_CHARS = 20_000
MAX_SHARED_CHARS = 200_000
DESCRIPTION_CHARS = 300

_NAME = re.compile(r"[\w-]{1,60}")
_FRONT = re.compile(r"---[ \t]*\n(.{0,4000}?)\n---[ \t]*(?:\n|$)(.*)", re.DOTALL)
_REFERENCE = re.compile(r"(?<![A-Za-z0-9_@])@skill:([\w-]*)")
_NAME_GOES_ON = re.compile(r"[A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Skill:
    """Reusable instructions in Markdown with front matter, owned by a project or shared through a data folder.

    ::

        ---
        name: concise
        description: Short sentences, for readers without time.
        ---

        Say one thing in a sentence. ...

    `@skill:concise` in a message, a block's prompt or a writer's instruction includes the instructions.

    Attributes:
        name: Name of letters, digits, `_` and `-`.
        description: Purpose in one line.
        instructions: Instructions in Markdown.

    Errors: `UsageError` for an invalid name, and for a text that is empty or too long.
    """

    name: str
    description: str
    instructions: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise UsageError(
                f"A skill cannot be called {self.name!r:.140}: a name has 1 to 60 letters, digits, '_' and '-'."
            )
        description = validate_line(self.description, f"description of the skill {self.name!r}", DESCRIPTION_CHARS)
        instructions = validate_text(self.instructions, f"instructions of the skill {self.name!r}", MAX_SKILL_CHARS)
        if not instructions:
            raise UsageError(f"instructions of the skill {self.name!r} are empty. Write what to do.")
        replace_texts(self, description=description, instructions=instructions)

    @property
    def prompt_text(self) -> str:
        """The instructions in the form used in prompts."""
        return f'<skill name="{self.name}">\n{self.instructions}\n</skill>'


def parse_skill(text: str) -> Skill:
    """Parse a skill and ignore unknown front-matter keys; `UsageError` if it is invalid."""
    match = _FRONT.match(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    if match is None:
        raise UsageError("A skill needs front matter (`---`, name, description, `---`) at its start.")
    fields: Any = load_yaml(match[1], "Its front matter", first_line=2)
    if not isinstance(fields, Mapping) or not all(isinstance(fields.get(key), str) for key in ("name", "description")):
        raise UsageError("The front matter of a skill must have the texts `name` and `description`.")
    return Skill(fields["name"], fields["description"], match[2])


def format_skill(skill: Skill) -> str:
    """Format a skill as text with front matter."""
    front = yaml.safe_dump(
        {"name": skill.name, "description": skill.description}, allow_unicode=True, sort_keys=False, width=10_000
    )
    return f"---\n{front}---\n\n{skill.instructions}\n"


SKILL_RESOURCE = ResourceType("skill", "text/vnd.artifactflow.skill+markdown", parse_skill, format_skill)


def load_shared_skills(folder: Path) -> dict[str, str]:
    """Read the texts of the shared skills, sorted by name; empty if the folder does not exist.

    Errors: `UsageError` with the path for an invalid or unreadable file and for a duplicate name, and if all skills
        together are too long, because every run stores a copy.
    """
    texts: dict[str, str] = {}
    for path in sorted(folder.glob("*.md")):
        text = read_text(path, "The skill")
        try:
            name = parse_skill(text).name
        except UsageError as error:
            raise UsageError(f"The skill {path} cannot be used: {error}") from None
        if name in texts:
            raise UsageError(f"The skill {path} cannot be used: another file of the folder has the name {brief(name)}.")
        texts[name] = text
    if (size := sum(map(len, texts.values()))) > MAX_SHARED_CHARS:
        raise UsageError(f"The skills in {folder} have {size} characters; at most {MAX_SHARED_CHARS} can be shared.")
    return dict(sorted(texts.items()))


def merge_skills(own: Iterable[Skill], shared: Mapping[str, str]) -> tuple[Skill, ...]:
    """Return a project's skills, followed by the shared ones with other names."""
    known = {skill.name.casefold(): skill for skill in own}
    for text in shared.values():
        skill = parse_skill(text)
        known.setdefault(skill.name.casefold(), skill)
    return tuple(known.values())


def referenced_skills(text: str, skills: Sequence[Skill], *, strict: bool = True) -> tuple[Skill, ...]:
    """Return the skills that a text refers to as `@skill:name`, in order; the longest matching name wins.

    Errors: `UsageError` for an unknown name if `strict`.
    """
    referenced: dict[str, Skill] = {}
    by_length = sorted(skills, key=lambda skill: len(skill.name), reverse=True)
    for match in _REFERENCE.finditer(text):
        for skill in by_length:
            # In scripts without spaces other text may follow a name directly.
            start, after = match[1][: len(skill.name)], match[1][len(skill.name) :]
            if start.casefold() == skill.name.casefold() and not _NAME_GOES_ON.match(after):
                referenced[skill.name] = skill
                break
        else:
            if strict:
                known = ", ".join(skill.name for skill in skills) or "none yet"
                raise UsageError(f"@skill:{match[1]:.80} names no skill. Known skills: {known}.")
    return tuple(referenced.values())


NAME_CHARS = 80
MAX_PERSONA_CHARS = 2_000
"""Maximum length of each text of a persona; all of them are part of every prompt."""


@dataclass(frozen=True, slots=True)
class Persona:
    """An intended reader of a document.

    Attributes:
        name: Their name.
        description: Who they are.
        knows: What they know already.
        wants: What they want from the document.

    Errors: `UsageError` for a value that is not text, is too long, or is required and empty.
    """

    name: str
    description: str
    knows: str = ""
    wants: str = ""

    def __post_init__(self) -> None:
        texts = {"name": validate_line(self.name, "The name of a persona", NAME_CHARS)}
        for field in ("description", "knows", "wants"):
            texts[field] = validate_text(
                getattr(self, field), f"{field} of the persona {texts['name']!r}", MAX_PERSONA_CHARS
            )
        if not texts["description"]:
            raise UsageError(f"description of the persona {brief(texts['name'])} is empty. Say who they are.")
        replace_texts(self, **texts)

    @property
    def prompt_text(self) -> str:
        """The description of the persona in the form used in prompts."""
        parts = [
            f"{self.name}: {self.description}",
            *([f"They know: {self.knows}"] if self.knows else []),
            *([f"They want: {self.wants}"] if self.wants else []),
        ]
        return "\n".join(parts)


PERSONA_RESOURCE = json_resource("persona", "application/vnd.artifactflow.persona+json", Persona)
