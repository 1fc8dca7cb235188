"""What goes wrong at an endpoint, said so that a person can act on it, and sorted into what may pass and what will not.

An address or a key that no request can carry is told before one is made. No message holds the API key, even where the
endpoint repeats it, nor credentials from the address.
"""

import math
import re
import socket
import ssl
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from artifactflow_nb.errors import ContextOverflow, ModelError, ModelRejected, ModelUnavailable, UsageError

MASK = "**********"

_LONGEST_TOLD = 300
_SHORTEST_SECRET = 4  # shorter keys are placeholders such as "k", and would blot out letters
_OVERFLOW_STATUS = frozenset({400, 413, 422, 500})
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|(?:context|prompt|input) (?:length|size|window|limit)|"
    r"maximum context|(?:prompt|input) is too long|too many (?:input )?tokens",
    re.IGNORECASE,
)
_REFUSALS = range(400, 500)
_UNKNOWN_FIELD = frozenset({400, 422})
_OPTIONAL_FIELDS = {"stream_options": ("stream_options", "include_usage"), "tool_choice": ("tool_choice",)}
_TOOLS = re.compile(r"\btools?\b|tool_choice|tool_calls|function.?call", re.IGNORECASE)
_NO_TOOLS = re.compile(
    r"tools param|param\w*:? \W?tools\b|\bnot support.{0,40}\b(?:tool|function)|support tool use|"
    r"\b(?:tools?|functions?|function calling)\b.{0,40}\bnot supported",
    re.IGNORECASE,
)
_MAY_PASS = frozenset({408, 409, 425, 429})
_ADVICE = {
    401: "Check OPENAI_API_KEY.",
    403: "Check what OPENAI_API_KEY is allowed to use.",
    404: "Check the model's name (AF_MODEL) and the base URL (OPENAI_BASE_URL), which usually ends in /v1.",
    405: "Check the base URL (OPENAI_BASE_URL), which usually ends in /v1.",
    413: "The prompt is too long for this endpoint.",
    429: "The endpoint limits how much may be asked; wait, or check the quota.",
}
_TOOLS_ADVICE = (
    'If it takes no tools in this form, let them be called in the text: tool_protocol="xml" (AF_TOOL_PROTOCOL=xml).'
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go, for messages, the key that must not be in them, and whether they offer tools."""

    url: str
    key: str
    tools: bool = False

    def __repr__(self) -> str:
        return f"Endpoint(url={self.shown!r})"

    @property
    def shown(self) -> str:
        """The address as messages show it."""
        return self.redact(public_url(self.url))

    def redact(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self.key, MASK) if len(self.key) >= _SHORTEST_SECRET else text

    def quote(self, body: object) -> str:
        """The endpoint's own words, without the key and shortened; the key goes first, lest half of it stays."""
        told = " ".join(self.redact(_told(body)).split())
        return told if len(told) <= _LONGEST_TOLD else told[:_LONGEST_TOLD] + "..."

    def status_error(self, status: int, body: object, headers: Mapping[str, str]) -> ModelError:
        """The error for an answer with this status."""
        said = f" {quoted}" if (quoted := self.quote(body)) else ""
        advice = self._advice(status, body)
        message = f"{self.shown} answered with status {status}:{said} {advice}".rstrip(" :")
        if _is_overflow(status, body):
            return ContextOverflow(message)
        if advice == _TOOLS_ADVICE or _is_final(status, body):
            return ModelRejected(message)
        return ModelUnavailable(message, retry_after_s=retry_after(headers))

    def stream_error(self, error: object) -> ModelError:
        """The error for an error object that came instead of text, with status 200."""
        status = error.get("code") or error.get("status") if isinstance(error, Mapping) else None
        number = int(status) if isinstance(status, int | str) and str(status).isdecimal() else 500
        advice = self._advice(number, error)
        message = f"{self.shown} reported an error in its stream: {self.quote(error)} {advice}".rstrip()
        kind = error.get("type") if isinstance(error, Mapping) else None
        if _is_overflow(number, error):
            return ContextOverflow(message)
        final = _is_final(number, error) or kind in {"invalid_request_error", "authentication_error"}
        return ModelRejected(message) if final or advice == _TOOLS_ADVICE else ModelUnavailable(message)

    def _advice(self, status: int, body: object) -> str:
        """What a person can do; servers refuse tools with many a status, so beyond 400 and 422 the words decide."""
        refused = _TOOLS if status in _UNKNOWN_FIELD else _NO_TOOLS
        if self.tools and status not in _MAY_PASS and refused.search(_words(body)) and not _is_overflow(status, body):
            return _TOOLS_ADVICE
        return _ADVICE.get(status, "")

    def not_a_chunk(self, payload: object) -> ModelError:
        """The error for something in the stream that no chat endpoint sends; a web page comes from a wrong address."""
        message = f"{self.shown} sent something that is no part of a chat answer: {self.quote(payload)}"
        if isinstance(payload, str) and payload.lstrip().startswith("<"):
            return ModelRejected(f"{message} {_ADVICE[405]}")
        return ModelUnavailable(message)

    def transport_error(self, error: BaseException, timeout_s: float) -> ModelUnavailable:
        """The error for a connection that did not come about, broke or stood still."""
        causes = list(_causes(error))
        host = urlsplit(self.shown).netloc
        if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
            return ModelUnavailable(f"{self.shown} refused the connection. Is the server running on {host}?")
        if any(isinstance(cause, socket.gaierror) for cause in causes):
            return ModelUnavailable(f"The host {host} was not found. Check OPENAI_BASE_URL and the network.")
        if any("Timeout" in type(cause).__name__ for cause in causes):
            return ModelUnavailable(
                f"{self.shown} sent nothing for {timeout_s:g} s. AF_TIMEOUT_S sets how long to wait."
            )
        reason = self.redact("; ".join(dict.fromkeys(str(cause) or type(cause).__name__ for cause in causes[-2:])))
        kind = "secure connection" if any(isinstance(cause, ssl.SSLError) for cause in causes) else "connection"
        return ModelUnavailable(f"The {kind} to {self.shown} failed: {reason}")


def checked_url(base_url: str | None) -> str | None:
    """The address as it is; `UsageError` if no request can go there."""
    if base_url is None:
        return None
    try:
        parts = urlsplit(base_url)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets or a port that are none
        sound = False
    if sound:
        return base_url
    raise UsageError(f"The base URL {base_url!r} is no web address; write it as in http://localhost:8000/v1.")


def checked_key(api_key: str | None) -> str:
    """The key without white space around it, empty if there is none; `UsageError` if no request can carry it."""
    key = (api_key or "").strip()
    if key.isascii() and key.isprintable():
        return key
    raise UsageError(
        "The API key holds characters that no request can carry. Copy it again, without quotes and breaks."
    )


def public_url(url: str) -> str:
    """The address without user name, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def http_library() -> Any:
    """The HTTP library below `openai`, which differs between its releases."""
    from openai import Timeout

    return import_module(Timeout.__init__.__module__.partition(".")[0])


def transport_errors() -> tuple[type[Exception], ...]:
    """What reading from a connection raises."""
    return OSError, http_library().RequestError


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the endpoint asks to wait, from `Retry-After` (seconds or a date) or `retry-after-ms`."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def refused_field(status: int, body: object, sent: Collection[str]) -> str | None:
    """The optional field among those sent that the endpoint says it does not take; None if it says nothing of one."""
    words = _words(body) if status in _UNKNOWN_FIELD else ""
    names = ((field, name) for field, known_as in _OPTIONAL_FIELDS.items() for name in known_as if field in sent)
    return next((field for field, name in names if name in words), None)


def _is_final(status: int, body: object) -> bool:
    """Whether asking again will not help: a quota that is used up comes as 429, too."""
    code = body.get("code") if isinstance(body, Mapping) else None
    return code == "insufficient_quota" or (status in _REFUSALS and status not in _MAY_PASS)


def _is_overflow(status: int, body: object) -> bool:
    """Whether the prompt was too long: endpoints tell it by code, by type, or only in words."""
    fields = (body.get("error"), body) if isinstance(body, Mapping) else (body,)
    words = " ".join(
        str(field.get(name) or "") if isinstance(field, Mapping) else str(field or "")
        for field in fields
        for name in ("code", "type", "message")
    )
    return status in _OVERFLOW_STATUS and _OVERFLOW.search(words) is not None


def _told(body: object) -> str:
    """The message in an error body, whichever way this endpoint writes it."""
    if isinstance(body, Mapping):
        for key in ("message", "error", "detail", "msg"):
            if body.get(key):
                return _told(body[key])
        return str(dict(body))
    if isinstance(body, list) and body:
        return _told(body[0])
    return "" if body is None else str(body)


def _words(body: object) -> str:
    """All words of an error body, but for the request that some endpoints repeat in it."""
    if isinstance(body, Mapping):
        return " ".join(_words(value) for key, value in body.items() if key != "input")
    if isinstance(body, list):
        return " ".join(map(_words, body))
    return str(body)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what led to it, nearest first, groups opened."""
    seen: set[int] = set()
    waiting: list[Any] = [error]
    while waiting:
        cause = waiting.pop(0)
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [*getattr(cause, "exceptions", ()), cause.__cause__ or cause.__context__]
