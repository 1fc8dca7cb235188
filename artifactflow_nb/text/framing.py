"""A question with what is known around it, as code puts it to an agent, and its reader."""

import re
from collections.abc import Iterable

_CONTEXT = re.compile(r"\n\n<context>\n.*\n</context>\Z", re.DOTALL)


def with_context(question: str, parts: Iterable[str]) -> str:
    """A question, and behind it what is known around it."""
    told = "\n\n".join(parts)
    return f"{question}\n\n<context>\n{told}\n</context>" if told else question


def without_context(text: str) -> str:
    """The question alone."""
    return _CONTEXT.sub("", text)
