"""Request fields that an endpoint refuses: found in its error, then left out or renamed for that model.

The names come from the error's `param`, else from the `loc` of its details, else from its message. Fields of messages
count as well, such as `cache_control`, or `reasoning_content` of an earlier reply. A field that a model demands in
messages of another model, or of a reply without the field, gets a placeholder (`_STAND_INS`).
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from artifactflow_nb.errors import ModelUnavailable
from artifactflow_nb.models.openai.errors import BAD_SAMPLE, Endpoint, error_words

_STATUS = frozenset({400, 404, 422})
_SERVER_ERRORS = range(500, 600)  # llama.cpp answers 500 to a field that it does not support
_UNSUPPORTED = re.compile(r"unsupported|not support", re.IGNORECASE)
_REFUSING = re.compile(
    r"support|unknown|unrecogni[sz]ed|unexpected|extra|permitted|allow|only|invalid|deprecated|cannot|can't|must|"
    r"forbidden|incompatible|no longer|instead|range|too large|too high",
    re.IGNORECASE,
)
_DEMANDING = re.compile(r"missing|passed back|is required", re.IGNORECASE)
_TOOLS_WITH = re.compile(r"\btools with\b", re.IGNORECASE)  # calls in the text work with the field
_NEEDED = frozenset({"model", "messages", "tools"})
_MESSAGE_FIELDS = frozenset(
    {"role", "content", "tool_calls", "tool_call_id", "type", "text", "id", "function", "name", "arguments"}
)
_ALIASES = {"include_usage": "stream_options", "reasoning.effort": "reasoning_effort"}
_OTHER_NAMES = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_STAND_INS: Mapping[str, Mapping[str, Any]] = {
    "reasoning_content": {"reasoning_content": ""},  # a field of messages, at DeepSeek and Moonshot
    # This is a field of calls. Google documents the text for calls without a signature.
    "thought_signature": {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}},
}
_DEMANDED = "demanded"
_OWN_TEMPERATURE = re.compile(r"(?:.*/)?(?:gpt-5|o\d(?:-|$)|claude|gemini-[3-9]|kimi)")

Refused = dict[str, str | None]
"""The refused fields of a model, each with its other name or None, and the demanded fields."""


class FieldRefused(ModelUnavailable):
    """An endpoint refused or demanded a field of a request; `change` says what the next attempt does."""

    def __init__(self, endpoint: Endpoint, change: str, body: object) -> None:
        quote = endpoint.quote(body)
        super().__init__(f"{endpoint.display_url} {change} from now on for this model: {quote}", retry_after_s=0.0)


def has_own_temperature(model: str) -> bool:
    """Return whether models of this family refuse a temperature, or advise against setting one."""
    return _OWN_TEMPERATURE.match(model.lower()) is not None


def refused_field(status: int, body: object, sent: Mapping[str, Any]) -> str | None:
    """Return the field of the request that an error refuses, or None if no named field can be left out."""
    words = error_words(body)
    is_refusal = status in _STATUS or (status in _SERVER_ERRORS and _UNSUPPORTED.search(words))
    if not is_refusal or _DEMANDING.search(words) or BAD_SAMPLE.search(words) or _TOOLS_WITH.search(words):
        return None
    names = (sent.keys() | set(_message_fields(sent["messages"]))) - _NEEDED
    for path in _paths(body):
        for part in (path, *re.split(r"[^\w-]+", path)):
            if (name := _ALIASES.get(part, part)) in names:
                return name
    return _named(words, names) if _REFUSING.search(words) else None


def demand(status: int, body: object, refused: Refused) -> str | None:
    """Add to `refused` the field that messages must have by an error; return a phrase about later requests, or None."""
    words = error_words(body)
    is_demand = status in _STATUS and _DEMANDING.search(words)
    field = next((name for name in _STAND_INS if name in words), None) if is_demand else None
    if field is None or field in refused:
        return None
    refused[field] = _DEMANDED
    return f"demanded the field {field}, for which a placeholder is sent where there is none"


def refuse(field: str, refused: Refused) -> str:
    """Add a field to the refused fields of a model; return a phrase about later requests."""
    other = _OTHER_NAMES.get(field)
    if other is not None and other in refused:
        refused[other], other = None, None
    refused[field] = other
    return f"refused the field {field}, which is {f'sent as {other}' if other else 'left out'}"


def without_refused(fields: Mapping[str, Any], refused: Refused) -> dict[str, Any]:
    """Copy the fields of a request without the fields that the model refuses."""
    if not refused:
        return dict(fields)
    demanded = {name for name, other in refused.items() if other == _DEMANDED}
    refused = {name: other for name, other in refused.items() if name not in demanded}
    remaining = {name: value for name, value in fields.items() if name not in refused}
    remaining |= {other: fields[name] for name, other in refused.items() if other and name in fields}
    if "stream" not in remaining:
        remaining.pop("stream_options", None)
    if not refused.keys() <= fields.keys():
        remaining["messages"] = _without(fields["messages"], refused)
    for name in demanded:
        remaining["messages"] = with_stand_ins(name, remaining["messages"])
    return remaining


def with_stand_ins(field: str, messages: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Copy messages; add a placeholder for a demanded field to assistant messages, or first calls, that lack it."""
    copies: list[Mapping[str, Any]] = []
    for message in messages:
        copy, stand_in = message, _STAND_INS[field]
        if field in stand_in and message["role"] == "assistant":
            copy = {**stand_in, **message}
        elif field not in stand_in and (calls := message.get("tool_calls")):
            copy = {**message, "tool_calls": [{**stand_in, **calls[0]}, *calls[1:]]}
        copies.append(copy)
    return copies


def _paths(body: object) -> Iterator[str]:
    """Yield the places in a request that an error names."""
    if isinstance(body, Mapping):
        if isinstance(param := body.get("param"), str):
            yield param
        if isinstance(loc := body.get("loc"), list):
            yield ".".join(map(str, loc))
        for name, value in body.items():
            if name != "input":  # `input` repeats the request
                yield from _paths(value)
    elif isinstance(body, list):
        for value in body:
            yield from _paths(value)


def _named(words: str, names: Collection[str]) -> str | None:
    """Return the first field that a message names, as `max_tokens` or `maxTokens`."""
    spellings = {
        spelling: name for name in names for spelling in (name, re.sub(r"_(\w)", lambda match: match[1].upper(), name))
    }
    spellings |= {alias: name for alias, name in _ALIASES.items() if name in names}
    pattern = "|".join(re.escape(spelling) for spelling in sorted(spellings, key=len, reverse=True))
    mention = re.search(rf"(?<![\w-])(?:{pattern})(?![\w-])", words) if pattern else None
    return spellings[mention[0]] if mention else None


def _message_fields(value: object) -> Iterator[str]:
    """Yield the names of all fields of messages, of their parts and of their calls that are not part of the format."""
    if isinstance(value, list):
        for item in value:
            yield from _message_fields(item)
    elif isinstance(value, Mapping):
        yield from value.keys() - _MESSAGE_FIELDS
        for name in ("content", "tool_calls"):
            yield from _message_fields(value.get(name))


def _without(value: Any, refused: Refused) -> Any:
    if isinstance(value, list):
        return [_without(item, refused) for item in value]
    if not isinstance(value, Mapping):
        return value
    remaining = {name: item for name, item in value.items() if name not in refused or name in _MESSAGE_FIELDS}
    return {
        name: _without(item, refused) if name in {"content", "tool_calls"} else item for name, item in remaining.items()
    }
