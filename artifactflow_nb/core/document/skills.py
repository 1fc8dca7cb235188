"""Skills: reusable instructions in Markdown with front matter, owned by a project or shared through a data folder.

::

    ---
    name: concise
    description: Short sentences, for readers without time.
    ---

    Say one thing in a sentence. ...

`@skill:concise` in a message, a block's prompt or a writer's instruction includes the instructions.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from artifactflow_nb.core.document.resources import ResourceType, replace_texts, validate_line, validate_text
from artifactflow_nb.core.local_files import read_text
from artifactflow_nb.core.text.yaml_text import load_yaml
from artifactflow_nb.errors import UsageError

SKILLS_FOLDER = "skills"
"""Name of the folder with shared skills in the data folder."""

SKILLS_SETTING = "skills"
"""Run setting with the shared skills at the start of the run."""

MAX_CHARS = 20_000
MAX_SHARED_CHARS = 200_000
DESCRIPTION_CHARS = 300

_NAME = re.compile(r"[\w-]{1,60}")
_FRONT = re.compile(r"---[ \t]*\n(.{0,4000}?)\n---[ \t]*(?:\n|$)(.*)", re.DOTALL)
_REFERENCE = re.compile(r"(?<![A-Za-z0-9_@])@skill:([\w-]*)")
_NAME_GOES_ON = re.compile(r"[A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Skill:
    """Reusable instructions.

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
        instructions = validate_text(self.instructions, f"instructions of the skill {self.name!r}", MAX_CHARS)
        if not instructions:
            raise UsageError(f"instructions of the skill {self.name!r} are empty. Write what to do.")
        replace_texts(self, description=description, instructions=instructions)

    @property
    def prompt_text(self) -> str:
        """Instructions for prompts."""
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
            raise UsageError(f"The skill {path} cannot be used: another file of the folder has the name {name!r}.")
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
