"""Skills: reusable instructions, each a Markdown file with front matter, of a project or shared by a data folder.

::

    ---
    name: concise
    description: Short sentences, for readers without time.
    ---

    Say one thing in a sentence. ...

`@skill:concise` in a message, in a block's prompt or in what a writer is told brings the instructions along. Values
only, but for the reading of the folder.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from artifactflow_nb.belongings import Kind, one_line, some_text
from artifactflow_nb.errors import UsageError

FOLDER = "skills"
"""The folder of shared skills, in the data folder."""

SETTING = "skills"
"""The setting of a run that keeps the shared skills as they were when it was begun."""

MOST_CHARS = 20_000
MOST_SHARED_CHARS = 200_000
DESCRIPTION_CHARS = 300

_NAME = re.compile(r"[\w-]{1,60}")
_FRONT = re.compile(r"---[ \t]*\n(.{0,4000}?)\n---[ \t]*(?:\n|$)(.*)", re.DOTALL)
_NAMED = re.compile(r"(?<![A-Za-z0-9_@])@skill:([\w-]*)")


@dataclass(frozen=True, slots=True)
class Skill:
    """Reusable instructions.

    Attributes:
        name: Its name: letters, digits, `_` and `-`.
        description: What it is for, in a line.
        instructions: What whoever uses it reads, in Markdown.

    Errors: `UsageError` for a name that cannot be, and for a text that is empty or too long.
    """

    name: str
    description: str
    instructions: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise UsageError(
                f"A skill cannot be called {self.name!r:.140}: a name has 1 to 60 letters, digits, '_' and '-'."
            )
        description = one_line(self.description, f"description of the skill {self.name!r}", DESCRIPTION_CHARS)
        instructions = some_text(self.instructions, f"instructions of the skill {self.name!r}", MOST_CHARS)
        if not instructions:
            raise UsageError(f"instructions of the skill {self.name!r} are empty. Write what it says.")
        object.__setattr__(self, "description", description)
        object.__setattr__(self, "instructions", instructions)

    @property
    def told(self) -> str:
        """What it says, as tasks have it."""
        return f'<skill name="{self.name}">\n{self.instructions}\n</skill>'


def read_skill(text: str) -> Skill:
    """The skill that a text with front matter is; further keys are passed over. `UsageError` for one that is none."""
    found = _FRONT.match(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    if found is None:
        raise UsageError("It is no skill: it has no front matter (`---`, name, description, `---`) at its beginning.")
    try:
        told: Any = yaml.safe_load(found[1])
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"It is no skill: its front matter is no YAML ({str(error)[:200]}).") from None
    if not isinstance(told, Mapping) or not all(isinstance(told.get(key), str) for key in ("name", "description")):
        raise UsageError("It is no skill: its front matter must have a name and a description, which are text.")
    return Skill(told["name"], told["description"], found[2])


def write_skill(skill: Skill) -> str:
    """The text with front matter that a skill is stored as."""
    front = yaml.safe_dump(
        {"name": skill.name, "description": skill.description}, allow_unicode=True, sort_keys=False, width=10_000
    )
    return f"---\n{front}---\n\n{skill.instructions}\n"


SKILLS = Kind("skill", "text/vnd.artifactflow.skill+markdown", read_skill, write_skill)


def load_shared(folder: Path) -> dict[str, str]:
    """The texts of the shared skills by their names, in the order of these; none if there is no such folder.

    Errors: `UsageError` with the path for a file that is no skill or cannot be read, for two of a name, and if all of
        them together are too long: each run keeps them.
    """
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.md")):
        try:
            text = path.read_text(encoding="utf-8")
            name = read_skill(text).name
        except (OSError, UnicodeDecodeError, UsageError) as error:
            raise UsageError(f"The skill {path} cannot be used: {error}") from None
        if name in found:
            raise UsageError(f"The skill {path} cannot be used: another file of the folder has the name {name!r}.")
        found[name] = text
    if (size := sum(map(len, found.values()))) > MOST_SHARED_CHARS:
        raise UsageError(f"The skills in {folder} have {size} characters; at most {MOST_SHARED_CHARS} can be shared.")
    return dict(sorted(found.items()))


def known_skills(own: Iterable[Skill], shared: Mapping[str, str]) -> tuple[Skill, ...]:
    """A project's skills and, behind them, the shared ones of other names."""
    known = {skill.name.casefold(): skill for skill in own}
    for text in shared.values():
        skill = read_skill(text)
        known.setdefault(skill.name.casefold(), skill)
    return tuple(known.values())


def named_skills(text: str, skills: Sequence[Skill], *, strictly: bool = True) -> tuple[Skill, ...]:
    """The skills that a text names as `@skill:name`, each once, in its order; the longest name that fits is meant.

    Errors: `UsageError` for a name that none has; unless that is passed over.
    """
    found: dict[str, Skill] = {}
    by_length = sorted(skills, key=lambda skill: len(skill.name), reverse=True)
    for at in _NAMED.finditer(text):
        skill = next((one for one in by_length if _begins_with(at[1], one.name)), None)
        if skill is not None:
            found[skill.name] = skill
        elif strictly:
            known = ", ".join(one.name for one in skills) or "none yet"
            raise UsageError(f"@skill:{at[1]:.80} names no skill. There are: {known}.")
    return tuple(found.values())


def _begins_with(word: str, name: str) -> bool:
    """Whether a word begins with a name that ends there; in scripts without spaces the text may go on."""
    after = word[len(name) : len(name) + 1]
    is_over = not (after.isascii() and (after.isalnum() or after in {"_", "-"}) and after)
    return word[: len(name)].casefold() == name.casefold() and is_over
