"""Notes and context that code adds to the texts of a prompt."""

import re
from collections.abc import Iterable

OMITTED_NOTE = "[Earlier messages were left out here to save space.]"
"""Replaces omitted older messages in a prompt."""

NO_ROUND_LEFT = "You have used all {rounds} rounds of tool calls. No tool can be called any more"
ONE_ROUND_LEFT = "One round of tool calls is left. Conclude with it, or answer now."
"""Start of the notes on an agent's remaining rounds, which are appended to the last message of a prompt."""

_CONTEXT = re.compile(r"\n\n<context>\n.*\n</context>\Z", re.DOTALL)


def with_context(question: str, parts: Iterable[str]) -> str:
    """Append context to a question, if there is any."""
    context = "\n\n".join(parts)
    return f"{question}\n\n<context>\n{context}\n</context>" if context else question


def without_context(text: str) -> str:
    """Remove the context from a question."""
    return _CONTEXT.sub("", text)
