"""The spans of a run, from the stored rows, and the attributes of spans in two dialects.

::

    invoke_workflow research                the run
    └── invoke_agent lead_agent             a job; its events are the requests to a person and the decisions
        ├── chat offline-extractive         an attempt of a model call
        └── execute_tool call_subagent      a tool call
            └── invoke_agent search_agent

Ids are hashes of the ids of rows, and times are the times of rows, so that equal rows give equal spans.
"""

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import orjson

from artifactflow_nb.core.events import PARALLEL_SEPARATOR
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.errors import Conflict
from artifactflow_nb.recording.rows import ENDED, redacted_json
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.store.prompts import resolve
from artifactflow_nb.store.runs import load_full_id, load_run

Dialect = Literal["genai", "openinference"]
_FILES = files(__package__)
MAPPING: Mapping[str, Any] = orjson.loads((_FILES / "mapping.json").read_bytes())
"""The attributes of facts by dialect; all other facts have the attribute `artifactflow.<fact>`.

A commit that changes an attribute, a value or an id raises the version, which each export has.
"""

_QUERIES = dict(re.findall(r"-- (\w+)\n(.+?);", (_FILES / "spans.sql").read_text(encoding="utf-8"), re.DOTALL))
_TEXTS = "SELECT sha256, stored_text(content) FROM texts WHERE sha256 IN (SELECT value FROM json_each(?))"
_MOST_CHARS = 20_000  # the longest text of an attribute


class Span(NamedTuple):
    """An operation of a run: ids of eight bytes, times in microseconds since 1970, facts by name, and events."""

    span_id: bytes
    parent_id: bytes
    operation: str
    name: str
    start: int
    end: int
    facts: Mapping[str, Any]
    events: Sequence[tuple[int, str, Mapping[str, Any]]] = ()


class Trace(NamedTuple):
    """The spans of a run and of its subruns; the id has sixteen bytes."""

    trace_id: bytes
    package_version: str
    spans: Sequence[Span]


def attributes(facts: Mapping[str, Any], dialect: Dialect) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of facts in a dialect; a fact without a value has none."""
    mapping = MAPPING[dialect]
    for fact, value in facts.items():
        name = mapping["attributes"].get(fact, f"artifactflow.{fact}")
        if fact == "operation":
            yield name, mapping["operations"].get(value, value)
        elif isinstance(value, tuple):
            yield from messages_in(mapping["messages"][fact], value, dialect)
        elif value is not None:
            yield name, [value] if name.endswith(".finish_reasons") else value


def messages_in(name: str, messages: Sequence[Any], dialect: Dialect) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of messages: JSON, or an attribute for each part."""
    if dialect == "genai":
        yield name, to_json([
            {"role": role, "parts": [{"type": "text", "content": text}, *(
                {"type": "tool_call", "name": call, "arguments": arguments} for call, arguments in calls)]}
            for role, text, calls in messages])  # fmt: skip
        return
    for n, (role, text, calls) in enumerate(messages):
        yield from ((f"{name}.{n}.message.role", role), (f"{name}.{n}.message.content", text))
        for i, (call, arguments) in enumerate(calls):
            function = f"{name}.{n}.message.tool_calls.{i}.tool_call.function"
            yield from ((f"{function}.name", call), (f"{function}.arguments", to_json(arguments)))


def id_of(n_bytes: int, *parts: str) -> bytes:
    """Derive the id of a span or a trace from ids of rows."""
    return sha256("/".join(parts).encode()).digest()[:n_bytes]


def load_trace(db: sqlite3.Connection, run_id: str, redactor: Redactor, *, with_content: bool = False) -> Trace:
    """Load the spans of a run and of its subruns, with secrets masked; for a subrun, the spans of its parent run.

    Errors: `NotFound` for an unknown run; `Conflict` for a run that has not ended.
    """
    root = load_run(db, load_full_id(db, run_id))
    while root.parent_call is not None:
        root = load_run(db, root.parent_call.run_id)
    family = db.execute(_QUERIES["family"], {"run_id": root.run_id}).fetchall()
    spans = [span for row in family for span in load_spans(db, row["run_id"], redactor, with_content=with_content)]
    spans.sort(key=lambda span: (span.start, -span.end, span.span_id))
    return Trace(id_of(16, root.run_id), family[0]["package_version"], spans)


def load_spans(db: sqlite3.Connection, run_id: str, redactor: Redactor, *, with_content: bool) -> Iterator[Span]:
    """Yield the spans of one run: calls of models and tools, jobs, and the run itself."""
    run = load_run(db, run_id)
    if run.status not in ENDED:
        raise Conflict(f"The run {run.run_id} is {run.status}. Export the run when it has ended.")

    def read(query: str) -> list[sqlite3.Row]:
        params = {"run_id": run_id, "content": with_content, "computed": COMPUTED_PROVIDER}
        return db.execute(_QUERIES[query], params).fetchall()

    def shown(text: str) -> str:
        more = len(text := redactor.text(text)) - _MOST_CHARS
        return text if more <= 0 else f"{text[:_MOST_CHARS]}… [{more:,} more characters]"

    def facts_of(row: sqlite3.Row) -> dict[str, Any]:
        values = {name: row[name] for name in row.keys() if name[0] != "_"}  # noqa: SIM118 - a Row iterates over its values
        return {name: shown(value) if isinstance(value, str) else value for name, value in values.items()}

    jobs: dict[str, list[tuple[int, int, str]]] = {}
    calls, tools = read("chat"), read("execute_tool")
    stored = [{"call_id": c["_id"], "request_base": c["_base"], "request_json": c["_prompt"]} for c in calls]
    prompts = resolve(stored, tuple) if with_content else {}
    hashes = sorted({message[1] for prompt in prompts.values() for message in prompt})
    texts = {key: shown(text) for key, text in db.execute(_TEXTS, (to_json(hashes),))}
    for operation, rows in {"chat": calls, "execute_tool": tools}.items():
        for row in rows:
            jobs.setdefault(row["_job"], []).append((row["_start"], row["_end"], row["agent"]))
            facts = facts_of(row)
            if operation == "execute_tool" and with_content:
                facts["input"] = shown(redacted_json(row["input"], redactor))
            elif with_content:
                facts["input"] = tuple((role, texts.get(key, ""), redactor.redact_value(native[0]) if native else ())
                                       for role, key, *native in prompts[row["_id"]])  # fmt: skip
                facts["output"] = (("assistant", facts["output"], ()),)
            if facts.get("provider") != COMPUTED_PROVIDER:
                ids = id_of(8, row["_id"]), id_of(8, run_id, row["_job"])
                yield Span(*ids, operation, shown(row["_name"]), row["_start"], row["_end"], facts)
    callers, requests = dict(map(tuple, read("caller"))), read("approval")
    for job_id, parts in jobs.items():
        start, _, agent = min(parts)
        events = [event for row in requests if row["_job"] == job_id for event in events_of(row, facts_of(row))]
        ids = id_of(8, run_id, job_id), id_of(8, callers.get(job_id.partition(PARALLEL_SEPARATOR)[0], run_id))
        facts = {"agent": shown(agent), "job_id": job_id}
        yield Span(*ids, "invoke_agent", shown(agent), start, max(end for _, end, _ in parts), facts, events)
    facts = facts_of(row := read("invoke_workflow")[0])
    if with_content:
        facts |= {"input": (("user", facts["input"], ()),), "output": (("assistant", facts["output"] or "", ()),)}
    parent = b"" if run.parent_call is None else id_of(8, run.parent_call.tool_call_id)
    yield Span(id_of(8, run_id), parent, "invoke_workflow", run.flow, row["_start"], row["_end"], facts)


def events_of(row: sqlite3.Row, facts: Mapping[str, Any]) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield a request to a person and, if it was decided, the decision."""
    yield row["_asked"], "artifactflow.approval.requested", {**facts, "decision": None, "scope": None}
    if row["_decided"] is not None:
        yield row["_decided"], "artifactflow.approval.decided", facts
