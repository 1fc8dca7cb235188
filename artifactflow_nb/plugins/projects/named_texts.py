"""Named texts of a project: personas, skills and evaluation dimensions.

A named text is Markdown with YAML front matter. In a project a named text is an artifact, whose media type says which
kind of text; files of a folder have the same form. Names are unique per kind. ::

    ---
    name: concise
    description: Short sentences, for readers without time.
    ---

    Say one thing in a sentence. ...
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import yaml

from artifactflow_nb.core.local_files import AnyPath, absolute_path, read_text
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.core.text.yaml_text import load_yaml
from artifactflow_nb.errors import UsageError, brief

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.{0,50000}?)\n---[ \t]*(?:\n|$)(.*)", re.DOTALL)

LINE_CHARS = 300


@dataclass(frozen=True, slots=True)
class TextRule:
    """The limits of a field of a named text.

    Attributes:
        max_chars: Maximum length.
        advice: What to write into a required field; an empty advice allows an empty field.
        is_line: Whether line breaks become spaces.
    """

    max_chars: int
    advice: str = ""
    is_line: bool = False

    def apply(self, text: object, label: str) -> str:
        """Normalise a text for storage; `UsageError` with the label for an invalid text."""
        if not isinstance(text, str):
            raise UsageError(f"{label} is {brief(text)}; it must be text of at most {self.max_chars} characters.")
        stored = " ".join(storable_text(text).split()) if self.is_line else storable_text(text).strip()
        if len(stored) > self.max_chars:
            raise UsageError(
                f"{label} has {len(stored)} characters; it must be text of at most {self.max_chars} characters."
            )
        if self.advice and not stored:
            raise UsageError(f"{label} is empty. {self.advice}")
        return stored


class _Dumper(yaml.SafeDumper):
    """Writes texts with line breaks in double quotes, which keep every character."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None if text.splitlines() in ([], [text]) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


@dataclass(frozen=True, slots=True)
class NamedText:
    """A text with a name; a subclass defines the kind of text.

    Fields that a subclass adds are in the front matter, apart from `body`, which follows the front matter.

    Attributes:
        name: Name, unique among the texts of the kind.
        description: What the text is about.

    Errors: `UsageError` for a field that is not text, is too long, or is required and empty.
    """

    noun: ClassVar[str]
    media_type: ClassVar[str]
    body: ClassVar[str] = ""
    rules: ClassVar[Mapping[str, TextRule]]

    name: str
    description: str

    def __post_init__(self) -> None:
        for field, rule in self.rules.items():
            label = f"The name of a {self.noun}" if field == "name" else f"{field} of the {self.noun} {self.name!r:.90}"
            object.__setattr__(self, field, rule.apply(getattr(self, field), label))

    @classmethod
    def required_fields(cls) -> tuple[str, ...]:
        """Return the names of the fields that have no default."""
        return tuple(field.name for field in fields(cls) if field.default is MISSING)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a text with front matter, ignoring unknown keys; `UsageError` for an invalid text."""
        match = _FRONT_MATTER.match(text.removeprefix("\ufeff").replace("\r\n", "\n"))
        required = [name for name in cls.required_fields() if name != cls.body]
        if match is None:
            raise UsageError(f"A {cls.noun} needs front matter (`---`, {', '.join(required)}, `---`) at its start.")
        front: Any = load_yaml(match[1], "Its front matter", first_line=2)
        if not isinstance(front, Mapping) or not all(isinstance(front.get(name), str) for name in required):
            keys = " and ".join(f"`{name}`" for name in required)
            raise UsageError(f"The front matter of a {cls.noun} must have the texts {keys}.")
        values = {field.name: front[field.name] for field in fields(cls) if field.name in front}
        return cls(**values | ({cls.body: match[2]} if cls.body else {}))

    def format(self) -> str:
        """Return the text with its front matter, without empty fields."""
        front = {field.name: getattr(self, field.name) for field in fields(self) if field.name != self.body}
        front = {name: text for name, text in front.items() if text}
        lines = yaml.dump(front, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=100_000)
        return f"---\n{lines}---\n" + (f"\n{getattr(self, self.body)}\n" if self.body else "")

    def with_fields(self, changes: Mapping[str, str | None]) -> Self:
        """Copy the text with changed fields (None: unchanged); `UsageError` for an unknown field."""
        names = {field.name for field in fields(self)}
        if unknown := [name for name in changes if name not in names]:
            raise UsageError(f"There is no field {brief(unknown[0])}. There are: {', '.join(sorted(names))}.")
        return replace(self, **{name: text for name, text in changes.items() if text is not None})


T = TypeVar("T", bound=NamedText)


@dataclass(frozen=True, slots=True)
class Persona(NamedText):
    """An intended reader of a document; the description says who the reader is.

    Attributes:
        knows: What the reader knows already.
        wants: What the reader wants from the document.
    """

    noun = "persona"
    media_type = "text/vnd.artifactflow.persona+markdown"
    rules: ClassVar[Mapping[str, TextRule]] = {
        "name": TextRule(80, "Name the reader.", is_line=True),
        "description": TextRule(2_000, "Say who they are."),
        "knows": TextRule(2_000),
        "wants": TextRule(2_000),
    }

    knows: str = ""
    wants: str = ""

    @property
    def prompt_text(self) -> str:
        """The description of the persona in the form used in prompts."""
        lines = [
            f"{self.name}: {self.description}",
            *([f"They know: {self.knows}"] if self.knows else []),
            *([f"They want: {self.wants}"] if self.wants else []),
        ]
        return "\n".join(lines)


_SKILL_NAME = re.compile(r"[\w-]{1,60}")


@dataclass(frozen=True, slots=True)
class Skill(NamedText):
    """Reusable instructions, owned by a project or shared through a data folder.

    `@skill:concise` in a message, a block's prompt or a writer's instruction includes the instructions. The name has
    letters, digits, `_` and `-`.

    Attributes:
        instructions: Instructions in Markdown.
    """

    noun = "skill"
    media_type = "text/vnd.artifactflow.skill+markdown"
    body = "instructions"
    rules: ClassVar[Mapping[str, TextRule]] = {
        "description": TextRule(LINE_CHARS, "Say what the skill is for.", is_line=True),
        "instructions": TextRule(20_000, "Write what to do."),
    }

    instructions: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _SKILL_NAME.fullmatch(self.name):
            raise UsageError(
                f"A skill cannot be called {self.name!r:.140}: a name has 1 to 60 letters, digits, '_' and '-'."
            )
        NamedText.__post_init__(self)

    @property
    def prompt_text(self) -> str:
        """The instructions in the form used in prompts."""
        return f'<skill name="{self.name}">\n{self.instructions}\n</skill>'


@dataclass(frozen=True, slots=True)
class Dimension(NamedText):
    """A criterion by which the texts of blocks are graded.

    Attributes:
        prompt: Instructions for the grader, including the meaning of the scores from 1 to 10.
    """

    noun = "dimension"
    media_type = "text/vnd.artifactflow.dimension+markdown"
    body = "prompt"
    rules: ClassVar[Mapping[str, TextRule]] = {
        "name": TextRule(60, "Name the dimension.", is_line=True),
        "description": TextRule(LINE_CHARS, "Say what the dimension is about.", is_line=True),
        "prompt": TextRule(5_000, "Write what its grader should look at."),
    }

    prompt: str


# --- several texts ---------------------------------------------------------------------------------------------------


def find_named(texts: Iterable[T], name: str, noun: str) -> T:
    """Find a text by name, ignoring case and white space; `UsageError` with similar names for an unknown name."""
    by_name = {text.name.casefold(): text for text in texts}
    if (match := by_name.get(" ".join(str(name).split()).casefold())) is not None:
        return match
    names = [text.name for text in by_name.values()]
    near = get_close_matches(name, names, n=5, cutoff=0.5) or names[:20]
    raise UsageError(f"There is no {noun} {brief(name)}. There are: {', '.join(near) or 'none yet'}.")


def merge_named(texts: Iterable[T], own: Iterable[T]) -> tuple[T, ...]:
    """Merge texts by name: a project's own texts replace other texts with the same name, and come last."""
    merged = {text.name.casefold(): text for text in texts} | {text.name.casefold(): text for text in own}
    return tuple(merged.values())


def read_named_texts(path: AnyPath, kind: type[NamedText]) -> dict[str, str]:
    """Read a Markdown file, or all Markdown files of a folder, as named texts; return the whole texts by name.

    Errors: `UsageError` with the path for an invalid or unreadable file, and for a name in two files.
    """
    texts: dict[str, str] = {}
    source = absolute_path(path)
    for file in sorted(source.glob("*.md")) if source.is_dir() else [source]:
        text = read_text(file, f"The {kind.noun}")
        try:
            name = kind.parse(text).name
        except UsageError as error:
            raise UsageError(f"The {kind.noun} {file} cannot be used: {error}") from None
        if name in texts:
            problem = f"another file of the folder has the name {brief(name)}"
            raise UsageError(f"The {kind.noun} {file} cannot be used: {problem}.")
        texts[name] = text
    return texts


@cache
def packaged_dimensions() -> tuple[Dimension, ...]:
    """Load the packaged dimensions, which every project has."""
    folder = Path(str(files(__package__) / "dimensions"))
    return tuple(map(Dimension.parse, read_named_texts(folder, Dimension).values()))


def merge_dimensions(own: Iterable[Dimension]) -> tuple[Dimension, ...]:
    """Return the packaged dimensions and the project's own, which replace packaged dimensions of the same names."""
    return merge_named(packaged_dimensions(), own)


# --- skills ----------------------------------------------------------------------------------------------------------

SKILLS_FOLDER = "skills"
"""Name of the folder with shared skills in the data folder."""

SKILLS_SETTING = "skills"
"""Run setting with the shared skills at the start of the run."""

MAX_SHARED_CHARS = 200_000

_REFERENCE = re.compile(r"(?<![A-Za-z0-9_@])@skill:([\w-]*)")
_NAME_GOES_ON = re.compile(r"[A-Za-z0-9_-]")


def load_shared_skills(folder: Path) -> dict[str, str]:
    """Read the texts of the shared skills, by name; empty if the folder does not exist.

    Errors: as for `read_named_texts`, and `UsageError` if all skills together are too long, because every run stores
        a copy.
    """
    texts = read_named_texts(folder, Skill) if folder.is_dir() else {}
    if (size := sum(map(len, texts.values()))) > MAX_SHARED_CHARS:
        raise UsageError(f"The skills in {folder} have {size} characters; at most {MAX_SHARED_CHARS} can be shared.")
    return dict(sorted(texts.items()))


def merge_skills(own: Sequence[Skill], shared: Mapping[str, str]) -> tuple[Skill, ...]:
    """Return a project's skills, followed by the shared skills with other names."""
    return merge_named((*own, *map(Skill.parse, shared.values())), own)


def referenced_skills(text: str, skills: Iterable[Skill], *, strict: bool = True) -> tuple[Skill, ...]:
    """Return the skills that a text refers to as `@skill:name`, in order; the longest matching name wins.

    Errors: `UsageError` for an unknown name if `strict`.
    """
    referenced: dict[str, Skill] = {}
    by_length = sorted(skills, key=lambda skill: len(skill.name), reverse=True)
    for match in _REFERENCE.finditer(text):
        for skill in by_length:
            # In scripts without spaces, text may follow a name directly.
            start, after = match[1][: len(skill.name)], match[1][len(skill.name) :]
            if start.casefold() == skill.name.casefold() and not _NAME_GOES_ON.match(after):
                referenced[skill.name] = skill
                break
        else:
            if strict:
                names = ", ".join(sorted(skill.name for skill in by_length)) or "none yet"
                raise UsageError(f"@skill:{match[1]:.80} names no skill. Known skills: {names}.")
    return tuple(referenced.values())
