"""Errors of endpoints: messages that say what to do, sorted into temporary and permanent failures.

Invalid addresses and keys are reported before the first request. No message contains the API key or credentials from
the address, even if the endpoint repeats them.
"""

import os
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from artifactflow_nb.core.text.format import duration
from artifactflow_nb.errors import (
    ContextOverflow,
    ModelError,
    ModelRejected,
    ModelUnavailable,
    ToolsRefused,
    UsageError,
    brief,
    check_text,
)
from artifactflow_nb.models.openai.waits import MAX_WAIT_S, requested_wait

REDACTED_KEY = "**********"

_MAX_QUOTE_CHARS = 300
_MIN_SECRET_CHARS = 4  # shorter keys are placeholders such as "k"; redacting them would remove letters of words
# Endpoints have no common code for a prompt that is too long: OpenAI, vLLM, llama.cpp and Ollama differ in status and
# in words.
_OVERFLOW_STATUS = frozenset({400, 422, 500})
_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|(?:context|prompt|input) (?:length|size|window|limit)|"
    r"maximum context|(?:prompt|input) is too long|too many (?:input )?tokens|token (?:count|limit)|"
    r"\btokens\b.{0,60}(?:exceed|less than|must be <)|超长",
    re.IGNORECASE,
)
# A request that exceeds the tokens per minute fails after any wait: OpenAI answers 429, Groq 413.
_TOO_LARGE = re.compile(r"request (?:body |entity )?(?:is )?too large", re.IGNORECASE)
_CLIENT_ERRORS = range(400, 500)
_UNKNOWN_FIELD = frozenset({400, 422})
_TOOLS = re.compile(r"\btools?\b|tool_choice|tool_calls|function.?call", re.IGNORECASE)
_NO_TOOLS = re.compile(
    r"tools param|param\w*:? \W?tools\b|\bnot support.{0,40}\b(?:tool|function)|support tool use|"
    r"\b(?:tools?|functions?|function calling)\b.{0,40}\bnot supported",
    re.IGNORECASE,
)
BAD_SAMPLE = re.compile(
    r"tool_use_failed|tool call validation failed|output_parse_failed|malformed_(?:function|tool)_call|"
    r"unexpected_tool_call",
    re.IGNORECASE,
)
"""A reply that the endpoint itself could not use: the next sample may be better."""
FAILED_REASON = re.compile(r"error|malformed", re.IGNORECASE)
_TEMPORARY = frozenset({408, 409, 425, 429})
_PASSING = re.compile(
    r"overload|busy|loading|time.?out|temporar|try again|internal|unavailable|capacity|rate.?limit|too many|"
    r"server.?error",
    re.IGNORECASE,
)
_KEY = re.compile(r"api.?key|unauthori[sz]ed|authenticat|credential|invalid token", re.IGNORECASE)
_MODEL = re.compile(r"\bmodels?\b", re.IGNORECASE)
_FINISH_REASONS = {
    **dict.fromkeys(("stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length", "max_output_tokens"), "length"),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
}
"""The finish reasons of complete replies, by their spellings at endpoints."""
RATE_LIMIT_ADVICE = "The endpoint limits the number of requests or tokens. Wait, or check the quota."
_ADVICE = {
    404: "Check the model's name (AF_MODEL) and the base URL (OPENAI_BASE_URL), which usually ends in /v1.",
    405: "Check the base URL (OPENAI_BASE_URL), which usually ends in /v1.",
    413: "The prompt is too long for this endpoint.",
    429: RATE_LIMIT_ADVICE,
}
_TOOLS_ADVICE = (
    'If it does not support native tool calls, use calls in the text: tool_protocol="xml" (AF_TOOL_PROTOCOL=xml).'
)


class BadSample(ModelUnavailable):
    """The endpoint could not use the model's output; one more sample is taken at once.

    Attributes:
        is_call: Whether the output was a call, not a text that a filter stopped.
    """

    is_call = True


def finish_reason(reason: str) -> str | None:
    """Return `stop`, `length` or `tool_calls` for the reason of a complete reply, or None for any other reason."""
    return _FINISH_REASONS.get(reason.strip().lower())


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The properties of an endpoint that its error messages use.

    Attributes:
        url: Address of the requests.
        key: The API key, which is redacted, or an empty string.
        offers_tools: Whether the request offers native tools.
        login: Credentials from the address, which are redacted.
    """

    url: str
    key: str
    offers_tools: bool = False
    login: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Endpoint(url={self.display_url!r})"

    @property
    def display_url(self) -> str:
        """The address for messages, without secrets."""
        return self.redact(public_url(self.url))

    def redact(self, text: str) -> str:
        """Return the text without the key and the credentials of the address."""
        for secret in (self.key, *self.login):
            text = text.replace(secret, REDACTED_KEY) if len(secret) >= _MIN_SECRET_CHARS else text
        return text

    def quote(self, body: object) -> str:
        """Return the endpoint's own message, redacted and shortened."""
        # The message is redacted first: a cut through the key would leave half of the key in the text.
        message = " ".join(self.redact(_body_message(body)).split())
        return message if len(message) <= _MAX_QUOTE_CHARS else message[:_MAX_QUOTE_CHARS] + "..."

    def status_error(self, status: int, body: object, headers: Mapping[str, str]) -> ModelError:
        """Return the error for a response with an error status."""
        advice = self._advice(status, body)
        reason = _sentence(self.quote(body), advice)
        message = f"{self.display_url} answered with status {status}: {reason} {advice}".rstrip(" :")
        wait_s = requested_wait(headers, body)
        if wait_s is not None and wait_s > MAX_WAIT_S and not _is_final(status, body):
            until = datetime.now(UTC) + timedelta(seconds=wait_s)
            message += (
                f" It asks to wait {duration(wait_s * 1_000)}, until {until:%H:%M} UTC, so this run does not wait."
            )
        error: ModelError = ModelUnavailable(message, retry_after_s=wait_s)
        if BAD_SAMPLE.search(error_words(body)):
            error = BadSample(message, retry_after_s=0.0)
        elif _is_overflow(status, body):
            error = ContextOverflow(message)
        elif advice == _TOOLS_ADVICE:
            error = ToolsRefused(message)
        elif _is_final(status, body):
            error = ModelRejected(message)
        error.status = status
        return error

    def stream_error(self, error: object) -> ModelError:
        """Return the error for an error object in the stream of a response with status 200."""
        status = error.get("code") or error.get("status") if isinstance(error, Mapping) else None
        number = int(status) if isinstance(status, int | str) and str(status).isdecimal() else 500
        advice = self._advice(number, error)
        reason = _sentence(self.quote(error), advice)
        message = f"{self.display_url} reported an error in its stream: {reason} {advice}".rstrip()
        kind = error.get("type") if isinstance(error, Mapping) else None
        if BAD_SAMPLE.search(error_words(error)):
            return BadSample(message, retry_after_s=0.0)
        if _is_overflow(number, error):
            return ContextOverflow(message)
        is_final = _is_final(number, error) or kind in {"invalid_request_error", "authentication_error"}
        if advice == _TOOLS_ADVICE:
            return ToolsRefused(message)
        return ModelRejected(message) if is_final else ModelUnavailable(message)

    def body_error(self, body: object) -> ModelError:
        """Return the error for a response with status 200 that is no stream and no reply, as after a wrong path."""
        error = body.get("error") if isinstance(body, Mapping) else None
        code = str(error.get("code")) if isinstance(error, Mapping) else ""
        words = error_words(body) if isinstance(body, Mapping) else ""  # the words of a web page do not count
        if code.isdecimal() or _is_overflow(HTTPStatus.BAD_REQUEST, body) or BAD_SAMPLE.search(words):
            return self.stream_error(error or body)
        base = self.display_url.removesuffix("/chat/completions")
        advice = f"{base} has no /v1 at its end: try {base}/v1." if not re.search(r"/v\d", base) else _ADVICE[404]
        if _KEY.search(words):
            advice = self._advice(HTTPStatus.UNAUTHORIZED, "")
        elif _MODEL.search(words):
            advice = _ADVICE[404]
        message = f"{self.display_url} answered with status 200 and no reply: {_sentence(self.quote(body), advice)}"
        return ModelUnavailable(message) if _PASSING.search(words) else ModelRejected(f"{message} {advice}")

    def finish_error(self, reason: str) -> ModelError:
        """Return the error for a reply that ended before it was complete."""
        message = f"{self.display_url} broke the reply off with the finish reason {self.redact(reason[:100])!r}."
        if re.search("content.?filter|safety|prohibited|sensitive", reason, re.IGNORECASE):
            message += " The endpoint's content filter stopped it. Word the question differently, or use another model."
            error = BadSample(message, retry_after_s=0.0)
            error.is_call = False
            return error
        return (BadSample if BAD_SAMPLE.search(reason) else ModelUnavailable)(message)

    def empty_error(self, problem: str) -> BadSample:
        """Return the error for a complete reply that has neither an answer nor calls; another sample may be better."""
        advice = "Ask again, or choose another model."
        error = BadSample(f"{self.display_url} ended the reply with {problem}. {advice}", retry_after_s=0.0)
        error.is_call = "call" in problem
        return error

    def _advice(self, status: int, body: object) -> str:
        """Return what the person can do about the error, or an empty string."""
        # Servers reject tools with various codes. Any mention of tools is enough with 400 and 422; for other codes the
        # message must say that tools are the problem.
        pattern = _TOOLS if status in _UNKNOWN_FIELD else _NO_TOOLS
        if (
            self.offers_tools
            and status not in _TEMPORARY
            and pattern.search(error_words(body))
            and not _is_overflow(status, body)
        ):
            return _TOOLS_ADVICE
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            if not self.key:
                return "No key was sent: set OPENAI_API_KEY, or pass api_key=."
            is_from_environment = os.environ.get("OPENAI_API_KEY", "").strip() == self.key
            name = "OPENAI_API_KEY" if is_from_environment else "the key that was passed as api_key"
            return f"Check {'' if status == HTTPStatus.UNAUTHORIZED else 'the permissions of '}{name}."
        if status == HTTPStatus.NOT_FOUND and "/deployments/" in self.url:
            return f"Check the deployment's name, and the version at the end of the base URL (?{AZURE_VERSION}=...)."
        return _ADVICE.get(status, "")

    def unexpected_payload_error(self, payload: object, expected: str = "part of a chat completion") -> ModelError:
        """Return the error for a payload other than `expected`.

        A web page means a wrong address, so the request is not retried.
        """
        message = f"{self.display_url} sent something that is not {expected}: {self.quote(payload)}"
        if isinstance(payload, str) and payload.lstrip().startswith("<"):
            return ModelRejected(f"{message} {_ADVICE[405]}")
        return ModelUnavailable(message)

    def stall_error(self, limit_s: float) -> ModelUnavailable:
        """Return the error for a reply that does not continue."""
        message = f"{self.display_url} sent no data for {limit_s:g} s in the middle of its reply."
        return ModelUnavailable(f"{message} AF_STALL_TIMEOUT_S sets how long to wait.")

    def transport_error(self, error: BaseException, timeout_s: float) -> ModelUnavailable:
        """Return the error for a connection that failed, broke or timed out."""
        causes: list[BaseException] = []  # the error and its causes, nearest first, with members of exception groups
        queue: list[Any] = [error]
        while queue:
            cause = queue.pop(0)
            if cause is not None and cause not in causes:  # a chain of exceptions may be circular
                causes.append(cause)
                queue += [*getattr(cause, "exceptions", ()), cause.__cause__ or cause.__context__]
        host = urlsplit(self.display_url).netloc
        is_unreached = any(isinstance(cause, ConnectionRefusedError | socket.gaierror) for cause in causes)
        was_connected = any(
            type(cause).__name__ in {"ReadError", "RemoteProtocolError", "ReadTimeout"} for cause in causes
        )
        variable, proxy = environment_proxy(self.url) or ("", "")
        if proxy and not was_connected:
            reason = self.redact(str(causes[-1]) or type(causes[-1]).__name__)
            return ModelUnavailable(
                f"{self.display_url} was not reached through the proxy {display_address(proxy)}, "
                f"which {variable} sets: {reason}. Check the proxy, or name {urlsplit(self.url).hostname} in NO_PROXY.",
                is_unreached=is_unreached,
            )
        message = f"{self.display_url} refused the connection. Is the server running on {host}?"
        if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
            return ModelUnavailable(message, is_unreached=True)
        message = f"The host {host} was not found. Check OPENAI_BASE_URL and the network."
        if any(isinstance(cause, socket.gaierror) for cause in causes):
            return ModelUnavailable(message, is_unreached=True)
        if any("Timeout" in type(cause).__name__ for cause in causes):
            return ModelUnavailable(
                f"{self.display_url} sent nothing for {timeout_s:g} s. AF_TIMEOUT_S sets how long to wait."
            )
        reason = self.redact("; ".join(dict.fromkeys(str(cause) or type(cause).__name__ for cause in causes[-2:])))
        kind = "secure connection" if any(isinstance(cause, ssl.SSLError) for cause in causes) else "connection"
        return ModelUnavailable(f"The {kind} to {self.display_url} failed: {reason}")


def validate_url(base_url: str | None) -> str | None:
    """Return the address unchanged; `UsageError` if it is not an http or https address."""
    if base_url is not None:
        check_text("base_url", base_url)
    if base_url is None or _is_web_address(base_url):
        return base_url
    address = display_address(base_url)
    raise UsageError(f"The base URL {brief(address)} is not a web address. Pass for example http://localhost:8000/v1.")


def validate_key(api_key: str | None) -> str:
    """Return the key without surrounding white space, or an empty string.

    Errors: `UsageError` for characters that an HTTP header cannot contain.
    """
    if not isinstance(api_key, str | None):
        raise UsageError(f"api_key is {type(api_key).__name__}; it must be text.")
    key = (api_key or "").strip()
    if key.isascii() and key.isprintable():
        return key
    raise UsageError(
        "The API key has characters that an HTTP header cannot contain. Copy it again, without quotes and line breaks."
    )


def split_login(url: str) -> tuple[str, tuple[str, str] | None]:
    """Split user name and password off the address, since HTTP libraries log the address of each request."""
    address = urlsplit(url)
    if not (address.username or address.password):
        return url, None
    bare = urlunsplit(address._replace(netloc=address.netloc.rpartition("@")[2]))
    return bare, (unquote(address.username or ""), unquote(address.password or ""))


AZURE_VERSION = "api-version"
_REQUEST_PATHS = re.compile(r"/(?:chat/completions|models|embeddings)/*$")


def split_query(url: str) -> tuple[str, dict[str, str]]:
    """Split the query, such as Azure's version, off an address, and cut off the path of a request."""
    address = urlsplit(url)
    bare = urlunsplit(address._replace(path=_REQUEST_PATHS.sub("", address.path), query="", fragment=""))
    return bare, dict(parse_qsl(address.query, keep_blank_values=True))


def is_local(url: str | None) -> bool:
    """Return whether an address is on this machine, to which no proxy leads."""
    host = (urlsplit(url).hostname if url else None) or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


def environment_proxy(url: str) -> tuple[str, str] | None:
    """Return the variable of the environment that sets a proxy for this address, and the address of the proxy."""
    address, proxies = urlsplit(url), getproxies()
    name = address.scheme if address.scheme in proxies else "all"
    if name not in proxies or is_local(url) or proxy_bypass(address.netloc):
        return None
    proxy = proxies[name]
    return f"{name.upper()}_PROXY", proxy if "://" in proxy else f"http://{proxy}"


def public_url(url: str) -> str:
    """Return the address without user name, password and query."""
    address = urlsplit(url)
    return urlunsplit((address.scheme, address.netloc.rpartition("@")[2], address.path, "", ""))


def display_address(url: str) -> str:
    """Return an address, valid or not, without user name, password and query, for errors and approval requests.

    If the host of an invalid address may be a password, everything before the last `@` is removed.
    """
    if _is_web_address(url):
        return public_url(url)
    scheme, slashes, rest = url.partition("://")
    return scheme * bool(slashes) + slashes + (rest if slashes else scheme).rpartition("@")[2].partition("?")[0]


def _is_web_address(url: str) -> bool:
    """Return whether a text is an http or https address with a host and a valid port."""
    try:
        address = urlsplit(url)
        return address.scheme in {"http", "https"} and bool(address.hostname) and address.port != 0
    except ValueError:  # invalid brackets or port
        return False


def http_library() -> Any:
    """Return the HTTP library of `openai`: `httpx` or, in later releases, `httpx2`."""
    from openai import Timeout

    return import_module(Timeout.__init__.__module__.partition(".")[0])


def transport_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that reading from a connection raises."""
    return OSError, http_library().RequestError


def _is_final(status: int, body: object) -> bool:
    """Return whether a retry cannot help."""
    # A used-up quota has the status 429 of a rate limit, but no wait restores the quota.
    code = body.get("code") if isinstance(body, Mapping) else None
    return code == "insufficient_quota" or (status in _CLIENT_ERRORS and status not in _TEMPORARY)


def _is_overflow(status: int, body: object) -> bool:
    """Return whether the prompt was too long, which endpoints report as a code, as a type, or only in the message."""
    fields = (body.get("error"), body) if isinstance(body, Mapping) else (body,)
    words = " ".join(
        str(field.get(name) or "") if isinstance(field, Mapping) else str(field or "")
        for field in fields
        for name in ("code", "type", "message")
    )
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or _TOO_LARGE.search(words):
        return True
    return status in _OVERFLOW_STATUS and _OVERFLOW.search(words) is not None


def _body_message(body: object) -> str:
    """Return the message in an error body, whose structure differs between endpoints."""
    if isinstance(body, Mapping):
        for key in ("message", "error", "detail", "msg"):
            if body.get(key):
                return _body_message(body[key])
        return str(dict(body))
    if isinstance(body, list) and body:
        return _body_message(body[0])
    return "" if body is None else str(body)


def _sentence(quote: str, advice: str) -> str:
    """Return an endpoint's message with a full stop if advice follows."""
    return f"{quote}." if advice and quote and quote[-1] not in ".!?。！？" else quote


def error_words(body: object) -> str:
    """Return all texts of an error body except `input`, where some endpoints repeat the request."""
    if isinstance(body, Mapping):
        return " ".join(error_words(value) for key, value in body.items() if key != "input")
    if isinstance(body, list):
        return " ".join(map(error_words, body))
    return str(body)
