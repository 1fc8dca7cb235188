"""Marks for endpoints that cache prompts on request only, such as Anthropic's models behind OpenRouter or LiteLLM.

A mark is a field of a text part; everything up to it is cached. The endpoint reuses the longest cached beginning of a
prompt::

    system, what never changes [mark] | what changes [mark] | ... | the last message that is no tool result [mark]

Results of native calls have no mark: proxies that copy it to the result's content have the request rejected.
"""

from collections.abc import Sequence
from typing import Any

_MARK = {"cache_control": {"type": "ephemeral"}}


def with_cache_marks(messages: Sequence[dict[str, Any]], stable_chars: int) -> list[dict[str, Any]]:
    """Copy messages of the wire format with marks in the system message and the last message that may have one.

    Args:
        messages: The messages; their contents are texts.
        stable_chars: Characters at the start of the system message that do not change; 0 for all of them.
    """
    marked = [dict(message) for message in messages]
    last = next((message for message in reversed(marked) if message["role"] != "tool" and message["content"]), None)
    for message in (marked[0], last) if last is not None and last is not marked[0] else marked[:1]:
        text = message["content"]
        cut = stable_chars if message["role"] == "system" else 0
        parts = [part for part in (text[:cut], text[cut:]) if part]  # empty parts are refused
        if parts:
            message["content"] = [{"type": "text", "text": part, **_MARK} for part in parts]
    return marked
