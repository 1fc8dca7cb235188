"""What comes of a call at a server, as a text for the model: texts as they are, of anything else what and how much."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from artifactflow_nb.messages import ToolResult
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.media import media, size_of

MOST_CHARS = 1_000_000
"""How much of a result is kept; models are shown less of it, as of any tool's."""


def result_of(answer: Any, server: str) -> ToolResult:
    """The result of a call.

    Args:
        answer: The SDK's `CallToolResult`.
        server: The server's name.
    """
    said = "\n\n".join(filter(None, _parts(answer)))
    if len(said) > MOST_CHARS:
        said = f"{said[:MOST_CHARS]}\n[{count(len(said) - MOST_CHARS, 'more character')} left out]"
    about = {"server": server}
    if answer.is_error:
        error = said or "The tool failed without saying why."
        return ToolResult(success=False, error=error, metadata={**about, "error_type": "McpError"})
    return ToolResult(success=True, data=said, metadata=about)


def _parts(answer: Any) -> Iterable[str]:
    """The texts of its parts; what is given in a structure only is a text then."""
    if answer.content or answer.structured_content is None:
        return [_SAID.get(part.type, _other)(part) for part in answer.content]
    return [json.dumps(answer.structured_content, ensure_ascii=False)]


def _media(part: Any) -> str:
    return media(part.type, part.mime_type, part.data)


def _resource(part: Any) -> str:
    found = part.resource
    if hasattr(found, "text"):
        return f"[{found.uri}]\n{found.text}"
    return f"[file {found.uri}, {found.mime_type or 'of no type'}, {size_of(found.blob)}; it cannot be shown here]"


def _link(part: Any) -> str:
    about = ", ".join(filter(None, (part.title or part.name, part.mime_type, part.description)))
    return f"[file {part.uri}: {about}]"


def _other(part: Any) -> str:
    return f"[{part.type}; it cannot be shown here]"


_SAID: Mapping[str, Callable[[Any], str]] = {
    "text": lambda part: str(part.text),
    "image": _media,
    "audio": _media,
    "resource": _resource,
    "resource_link": _link,
}
