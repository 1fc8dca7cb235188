"""Personas: those for whom a document is written. Values only."""

from dataclasses import asdict, dataclass
from typing import Any

import orjson

from artifactflow_nb.belongings import Kind, one_line, some_text
from artifactflow_nb.errors import UsageError

NAME_CHARS = 80
MOST_CHARS = 2_000
"""How long each of a persona's texts may be: all of them stand in each prompt."""


@dataclass(frozen=True, slots=True)
class Persona:
    """Somebody for whom a document is written.

    Attributes:
        name: Their name.
        description: Who they are.
        knows: What they know already.
        wants: What they want of the document.

    Errors: `UsageError` for a text that is no text, is empty or is too long.
    """

    name: str
    description: str
    knows: str = ""
    wants: str = ""

    def __post_init__(self) -> None:
        kept = {"name": one_line(self.name, "The name of a persona", NAME_CHARS)}
        for field in ("description", "knows", "wants"):
            kept[field] = some_text(getattr(self, field), f"{field} of the persona {kept['name']!r}", MOST_CHARS)
        if not kept["description"]:
            raise UsageError(f"description of the persona {kept['name']!r} is empty. Say who they are.")
        for field, text in kept.items():
            object.__setattr__(self, field, text)

    @property
    def told(self) -> str:
        """What is known of them, as prompts have it."""
        parts = [
            f"{self.name}: {self.description}",
            *([f"They know: {self.knows}"] if self.knows else []),
            *([f"They want: {self.wants}"] if self.wants else []),
        ]
        return "\n".join(parts)


def _read(text: str) -> Persona:
    try:
        told: dict[str, Any] = orjson.loads(text)
        return Persona(**told)
    except (TypeError, ValueError, UsageError) as error:
        raise UsageError(f"It is no persona ({error}).") from None


def _write(persona: Persona) -> str:
    return orjson.dumps(asdict(persona), option=orjson.OPT_INDENT_2).decode()


PERSONAS = Kind("persona", "application/vnd.artifactflow.persona+json", _read, _write)
