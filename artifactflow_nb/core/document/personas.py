"""Personas: the intended readers of a document."""

from dataclasses import dataclass

from artifactflow_nb.core.document.resources import json_resource, replace_texts, validate_line, validate_text
from artifactflow_nb.errors import UsageError

NAME_CHARS = 80
MAX_CHARS = 2_000
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
            texts[field] = validate_text(getattr(self, field), f"{field} of the persona {texts['name']!r}", MAX_CHARS)
        if not texts["description"]:
            raise UsageError(f"description of the persona {texts['name']!r} is empty. Say who they are.")
        replace_texts(self, **texts)

    @property
    def prompt_text(self) -> str:
        """Description for prompts."""
        parts = [
            f"{self.name}: {self.description}",
            *([f"They know: {self.knows}"] if self.knows else []),
            *([f"They want: {self.wants}"] if self.wants else []),
        ]
        return "\n".join(parts)


PERSONA_RESOURCE = json_resource("persona", "application/vnd.artifactflow.persona+json", Persona)
