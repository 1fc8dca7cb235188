"""Endpoints as their providers document them: a file of data for each, and one server that speaks them all.

::

    dialects/NAME.yaml ──> Dialect ──┐
    request ──> checks of the dialect (path, key, fields, what must come back) ──> an error of the dialect
                                     └──> brain.think ──> the stream of the dialect

The data of a dialect:

    sources      where the form is documented, and `read`, the day on which that was read
    paths, key   of the base URL, the first for clients; the header that carries the key
    model        a name that the endpoint knows; `listed` is what `/models` says about it
    refuses      rules for fields of the request: the first that applies names an error
    demands      rules for fields that an assistant message must bring back
    stream       the steps of a reply, each a template of a chunk or a line
    errors       status and body by name; `key`, `path` and `model` are those of the server itself

In a template a text that is only `$name` becomes the value of that name, with its type; elsewhere `$name` is replaced
in the text. The values: model, created, n (number of the reply), text, reasoning, piece, index, id, name, arguments,
calls, reason, signature, usage, and the token counts prompt, completion, thinking, cached, total, cost.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from endpoints.brain import Thought, think
from support.call_styles import pieces
from support.chat_endpoint import Answer, ChatServer, Request

DIALECTS = Path(__file__).with_name("dialects")
KEY = "sk-loopback-key-0123456789abcdef"

REFUSED = {
    ("mistral", "auto"): ["field"],  # stream_options
    ("mistral", "xml"): ["field"],
    ("groq", "auto"): ["message_field", "message_field"],  # reasoning and channel of a reply with calls
}
"""What an endpoint refuses in a first question by the protocol, each once: later requests respect it."""

_PRICE_OF_A_TOKEN = 1e-6
_PIECE_CHARS = 200  # large pieces: these tests are about the form, not about speed
_NAME = re.compile(r"\$(\w+)")
_MESSAGE_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", "refusal"})


@dataclass(frozen=True)
class Dialect:
    """The documented form of an endpoint; see the module docstring."""

    name: str
    sources: Sequence[str]
    read: str
    model: str
    stream: Sequence[Mapping[str, Any]]
    errors: Mapping[str, Mapping[str, Any]]
    paths: Sequence[str] = ("/v1",)
    query: Mapping[str, str] = field(default_factory=dict)
    key: str = "authorization"
    listed: Mapping[str, Any] = field(default_factory=dict)
    call: Mapping[str, Any] = field(default_factory=dict)
    call_id: str = "call_$hash"
    usage: Mapping[str, Any] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=lambda: {"stop": "stop", "calls": "tool_calls"})
    response_model: str = ""
    takes_any_model: bool = False
    refuses: Sequence[Mapping[str, Any]] = ()
    demands: Sequence[Mapping[str, Any]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    counts_reasoning_apart: bool = False


def names() -> list[str]:
    """The names of all dialects."""
    return sorted(path.stem for path in DIALECTS.glob("*.yaml"))


@cache
def load(name: str) -> Dialect:
    """Read a dialect."""
    written = yaml.safe_load((DIALECTS / f"{name}.yaml").read_text(encoding="utf-8"))
    return Dialect(name, **written)


@dataclass(frozen=True)
class Sent:
    """A reply that was sent: its usage as the client must understand it, and what must come back with its calls."""

    prompt: int
    output: int
    thinking: int
    cached: int
    cost: float
    calls: tuple[tuple[str, str], ...]
    signature: str
    reasoning: str


class DialectServer(ChatServer):
    """An endpoint of a dialect with the offline model behind it; a context manager.

    Attributes:
        sent: The replies, in order.
        refused: The names of the errors, in order.
        faults: Names of errors that answer the next requests, instead of replies; `None` lets a request through.
        takes_tools: Whether it takes tools; if not, they get the error `no_tools`.
        thinks: Whether its replies have reasoning.
        window: The tokens to which it cuts prompts; 0 for all of them.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(self._respond)
        self.dialect = dialect
        self.sent: list[Sent] = []
        self.refused: list[str] = []
        self.faults: list[str | None] = []
        self.takes_tools, self.thinks = True, True
        self.window = 0

    @property
    def address(self) -> str:
        """The address without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """The address for a client, as the provider documents it."""
        query = "&".join(f"{name}={value}" for name, value in self.dialect.query.items())
        return f"{self.address}{self.dialect.paths[0]}{'?' if query else ''}{query}"

    def _respond(self, request: Request) -> Answer:
        name = self._check(request)
        if name is None and self.faults and not request.path.split("?")[0].endswith("/models"):
            name = self.faults.pop(0)
        if name is not None and "after" not in self.dialect.errors[name]:
            return self.error(name, request.body)
        if request.path.split("?")[0].endswith("/models"):
            entry = {"id": self.dialect.model, "object": "model", **self.dialect.listed}
            return _json(200, {"object": "list", "data": [entry]})
        thought = think(request.body)
        lines = list(self._reply(request.body, thought if self.thinks else replace(thought, reasoning="")))
        if name is not None:  # an error within the stream
            error = self.dialect.errors[name]
            self.refused.append(name)
            event = f"event: {error['event']}\n" if "event" in error else ""
            lines = [*lines[: error["after"]], event + _event(fill(error["body"], self._values(request.body)))]
        headers = tuple(self.dialect.headers.items())
        return Answer(raw="".join(lines).encode(), headers=headers)

    def error(self, name: str, body: Mapping[str, Any]) -> Answer:
        """The answer with the error of this name."""
        self.refused.append(name)
        error = self.dialect.errors[name]
        content = fill(error["body"], self._values(body))
        headers = tuple(error.get("headers", {}).items())
        if isinstance(content, str):
            return Answer(status=error["status"], raw=content.encode(), content_type="text/plain", headers=headers)
        return _json(error["status"], content, headers)

    # --- checks ----------------------------------------------------------------------------------------------------

    def _check(self, request: Request) -> str | None:
        """The name of the error that this request deserves."""
        dialect, body = self.dialect, request.body
        address = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        known = {f"{path}{kind}" for path in dialect.paths for kind in ("/chat/completions", "/models")}
        if address.path not in known or query != dialect.query:
            return "path"
        if dialect.key and request.headers.get(dialect.key, "").removeprefix("Bearer ") != KEY:
            return "key"
        if address.path.endswith("/models"):
            return None
        if body["model"] != dialect.model and not dialect.takes_any_model:
            return "model"
        if "tools" in body and not self.takes_tools:
            return "no_tools"
        return next((rule["error"] for rule in dialect.refuses if _is_refused(rule, body)), None) or self._missing(body)

    def _missing(self, body: Mapping[str, Any]) -> str | None:
        """The error for the first field that should have come back, but did not, or not as it was sent."""
        messages = body["messages"]
        start = max(n for n, message in enumerate(messages) if message["role"] == "user")
        for rule in self.dialect.demands:
            if rule.get("if", "model") not in body:
                continue
            for message in messages[start if rule.get("within") == "turn" else 0 :]:
                if message["role"] != "assistant":
                    continue
                calls = message.get("tool_calls") or []
                holders: Sequence[Any] = [message] if rule["of"] == "message" or calls else []
                if rule["of"] == "call":
                    holders = calls[: rule.get("first", len(calls))]
                issued = self._issued(calls, rule.get("as"))
                if not all(_fits(rule, _at(holder, rule["path"]), issued) for holder in holders):
                    return str(rule["error"])
        return None

    def _issued(self, calls: Sequence[Mapping[str, Any]], name: str | None) -> str | None:
        """What was sent with these calls under this name; None if nothing was, or need not come back."""
        written_calls = tuple((call["function"]["name"], _normal(call["function"]["arguments"])) for call in calls)
        found = [sent for sent in self.sent if written_calls and sent.calls == written_calls]
        return getattr(found[-1], name) if name and found else None

    # --- replies ---------------------------------------------------------------------------------------------------

    def _values(self, body: Mapping[str, Any]) -> dict[str, Any]:
        field_name = next((name for rule in self.dialect.refuses if (name := _field(rule, body))), "")
        return {"model": body.get("model", ""), "created": 1_764_201_600, "n": len(self.sent), "field": field_name}

    def _reply(self, body: Mapping[str, Any], thought: Thought) -> Iterator[str]:
        dialect = self.dialect
        values = self._values(body)
        digest = sha256(f"{dialect.name} {len(self.sent)}".encode()).hexdigest()
        prompt = sum(len(json.dumps(value)) for value in (body["messages"], body.get("tools", []))) // 4
        prompt = min(prompt, self.window or prompt)
        thinking = len(thought.reasoning) // 4
        written = [(call.name, json.dumps(dict(call.params), ensure_ascii=False)) for call in thought.calls]
        output = thinking + (len(thought.text) + sum(len(name) + len(text) for name, text in written)) // 4 + 1
        cost = round((prompt + output) * _PRICE_OF_A_TOKEN, 9)
        values |= {"signature": f"sig-{digest}", "prompt": prompt, "thinking": thinking, "cached": prompt // 2}
        values |= {"completion": output - thinking if dialect.counts_reasoning_apart else output, "cost": cost}
        values |= {"total": prompt + output, "uncached": prompt - prompt // 2, "hash": digest}
        values |= {"reasoning": thought.reasoning, "text": thought.text}
        values["model"] = dialect.response_model or body["model"]
        values["reason"] = dialect.reasons["calls" if written else "stop"]
        values["usage"] = fill(dialect.usage, values)
        entries = [
            values
            | {"index": n, "name": name, "arguments": text}
            | {"id": fill(dialect.call_id, _call_hashes(f"{digest} {n}"))}
            for n, (name, text) in enumerate(written)
        ]
        values["calls"] = [fill(dialect.call, entry) for entry in entries]
        written_calls = tuple((name, _normal(text)) for name, text in written)
        self.sent.append(
            Sent(prompt, output, thinking, prompt // 2, cost, written_calls, values["signature"], thought.reasoning)
        )
        for step in dialect.stream:
            if (wish := step.get("if")) and not _is_wished(wish, body, thought):
                continue
            for moment in _moments(step, values, entries, thought):
                yield step["line"] + "\n\n" if "line" in step else _event(fill(step["chunk"], moment))


def _moments(
    step: Mapping[str, Any], values: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], thought: Thought
) -> Iterator[Mapping[str, Any]]:
    """The values of each chunk of a step: one, or one for each piece of a text, each call or each piece of a call."""
    match step.get("each"):
        case None:
            yield values
        case "text" | "reasoning" as name:
            for piece in pieces(getattr(thought, name), _PIECE_CHARS):
                yield {**values, "piece": piece}
        case "call":
            yield from entries
        case "first_call":
            yield from entries[:1]
        case "other_call":
            yield from entries[1:]
        case "argument":
            for entry in entries:
                for piece in pieces(entry["arguments"], _PIECE_CHARS):
                    yield {**entry, "piece": piece}


def _is_wished(wish: str, body: Mapping[str, Any], thought: Thought) -> bool:
    if wish == "usage":
        return bool((body.get("stream_options") or {}).get("include_usage"))
    return bool(getattr(thought, wish))


def _call_hashes(seed: str) -> dict[str, str]:
    digest = sha256(seed.encode()).hexdigest()
    digits = "".join(filter(str.isdigit, digest))
    return {"hash": digest[:24], "nine": digest[:9], "eight": digest[:8], "letters": digest[:32], "digits": digits[:9]}


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """A template with its values."""
    if isinstance(template, Mapping):
        return {name: fill(part, values) for name, part in template.items()}
    if isinstance(template, list):
        return [fill(part, values) for part in template]
    if not isinstance(template, str):
        return template
    if (whole := _NAME.fullmatch(template)) and whole[1] in values:
        return values[whole[1]]
    return _NAME.sub(lambda match: str(values.get(match[1], match[0])), template)


def _event(payload: Any) -> str:
    return f"data: {json.dumps(payload, ensure_ascii=False)}\n\n"


def _json(status: int, body: Any, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    return Answer(status=status, raw=json.dumps(body).encode(), content_type="application/json", headers=headers)


def _field(rule: Mapping[str, Any], body: Mapping[str, Any]) -> str | None:
    """The field of a request to which a rule applies."""
    if "known" in rule:
        return next((name for name in body if name not in rule["known"]), None)
    if "known_in_messages" in rule:
        known = {*_MESSAGE_FIELDS, *rule["known_in_messages"]}
        return next((name for message in body.get("messages", ()) for name in message if name not in known), None)
    name = rule.get("field")
    return name if name in body and body[name] not in rule.get("unless", []) else None


def _is_refused(rule: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    return _field(rule, body) is not None


def _at(holder: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; None if there is none."""
    value: Any = holder
    for name in path.split("."):
        if isinstance(value, list):
            value = value[int(name)] if int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _fits(rule: Mapping[str, Any], value: Any, issued: str | None) -> bool:
    if "pattern" in rule:
        return re.fullmatch(rule["pattern"], value or "") is not None
    return value is not None and (issued is None or value == issued)


def _normal(arguments: str) -> str:
    return json.dumps(json.loads(arguments), sort_keys=True)
