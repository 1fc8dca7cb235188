"""Checks of rows from a file: one pydantic model for each table, built from the tables of the store.

A file is not trusted: columns and types must match the schema, ids must refer to rows of the file, hashes must match
the hashed texts, and the last event of a run must be an end. Inside JSON columns, only values that views, plots, forks
and playback read are checked. Unknown names in settings and manifests are ignored.
"""

import hashlib
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from artifactflow_nb.core.approvals import SCOPES, Decision, Scope
from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.events import StreamEventType, payload_problem
from artifactflow_nb.core.local_files import is_shallow, loads
from artifactflow_nb.core.pieces import unpack
from artifactflow_nb.core.plan import JobKind
from artifactflow_nb.errors import CassetteError
from artifactflow_nb.recording.rows import ENDED, Row, RunRows, text_hashes
from artifactflow_nb.store.approvals import parse_decision
from artifactflow_nb.store.calls import FINISHED
from artifactflow_nb.store.prompts import MAX_CHAIN, is_range
from artifactflow_nb.store.runs import CANCELLED, COMPLETED, FAILED, RUNNING, WAITING, read_event
from artifactflow_nb.store.schema import KEYS, ROW_CHECKS, create_schema, from_microseconds

_MOST = 2**53
_MISSING = object()
_TYPES: Mapping[str, Any] = {
    "TEXT": str,
    "INTEGER": Annotated[int, Field(gt=-_MOST, lt=_MOST)],
    "REAL": Annotated[float, Field(gt=-_MOST, lt=_MOST, allow_inf_nan=False)],
}
_WORDS: Mapping[str, frozenset[str]] = {
    "runs.status": frozenset({RUNNING, WAITING, COMPLETED, FAILED, CANCELLED}),
    "messages.status": frozenset({RUNNING, WAITING, COMPLETED, FAILED, CANCELLED}),
    "tool_calls.status": frozenset({"pending", "started", "finished"}),
    "approvals.decision": frozenset({"approved", "edited", "denied", "instructed"}),
    "approvals.scope": frozenset(SCOPES),
    "events.event_type": frozenset(map(str, StreamEventType)) - {str(StreamEventType.LLM_CHUNK)},
}
_UNDECLARED = (
    ("artifact_versions", "run_id", "runs", "run_id"),
    ("artifact_versions", "tool_call_id", "tool_calls", "tool_call_id"),
)
LOCAL_SOURCES = {
    "sources": ["source_id", "uri", "title", "fetched_at", "media_type", "sha256", "n_chars", "extractor"],
    "sections": ["source_id", "anchor", "title", "text", "position"],
    "source_metadata": ["source_id", "anchor", "metadata_json"],
}
"""The columns of local sources in a file; other columns belong to the store in which the sources are indexed."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The store's schema, for checks of rows.

    Attributes:
        defaults: The columns of each table in order, with default values for columns that a row may omit.
        references: A table and column, with the table and column to which the ids refer.
        unique: The unique columns of a table besides the primary key.
    """

    models: Mapping[str, TypeAdapter[Any]]
    defaults: Mapping[str, Row]
    references: tuple[tuple[str, str, str, str], ...]
    unique: tuple[tuple[str, str], ...]
    local_sources: Mapping[str, TypeAdapter[Any]]


def store_schema() -> Schema:
    """Return the schema of a store."""
    return _load_schema(tuple(KEYS))


@cache
def _load_schema(_tables: tuple[str, ...]) -> Schema:
    models: dict[str, TypeAdapter[Any]] = {}
    defaults: dict[str, Row] = {}
    references, unique = list(_UNDECLARED), []
    local: dict[str, TypeAdapter[Any]] = {}
    with closing(sqlite3.connect(":memory:")) as db:
        db.row_factory = sqlite3.Row
        create_schema(db)
        for table in KEYS:
            columns = db.execute(f"PRAGMA table_info({table})").fetchall()
            models[table] = TypeAdapter(row_model(table, columns))
            defaults[table] = {
                column["name"]: _MISSING
                if _is_needed(column) and column["dflt_value"] is None
                else db.execute(f"SELECT {column['dflt_value'] or 'NULL'}").fetchone()[0]
                for column in columns
            }
            references += (
                (table, key["from"], key["table"], key["to"] or KEYS[key["table"]][0])
                for key in db.execute(f"PRAGMA foreign_key_list({table})")
            )
            for index in db.execute(f"PRAGMA index_list({table})").fetchall():
                names = [column["name"] for column in db.execute(f"PRAGMA index_info({index['name']})")]
                if index["origin"] == "u" and len(names) == 1:
                    unique.append((table, names[0]))
        for table, names in LOCAL_SOURCES.items():
            columns = [column for column in db.execute(f"PRAGMA table_info({table})") if column["name"] in names]
            row: Any = row_model(table, columns)
            local[table] = TypeAdapter(list[row])
        return Schema(models, defaults, tuple(references), tuple(unique), local)


def _is_needed(column: sqlite3.Row) -> bool:
    return bool(column["notnull"] or column["pk"])


def row_model(table: str, columns: Sequence[sqlite3.Row]) -> type[BaseModel]:
    """Create the model of the rows of a table from the columns, as `PRAGMA table_info` describes the columns."""
    fields: dict[str, Any] = {}
    for column in columns:
        kind, name = _TYPES[column["type"]], column["name"]
        fields[name] = (kind if _is_needed(column) else kind | None, ...)
    return create_model(table, __config__=ConfigDict(extra="forbid", strict=True), **fields)


def check_rows(rows: RunRows) -> RunRows:
    """Return the rows with all columns; missing columns get defaults.

    Errors: `CassetteError` for invalid rows.
    """
    schema = store_schema()
    tables: dict[str, tuple[Row, ...]] = {}
    for table in KEYS:
        valid_rows = []
        for original in rows[table]:
            columns = {name: original.get(name, default) for name, default in schema.defaults[table].items()}
            row = {name: value for name, value in {**columns, **original}.items() if value is not _MISSING}
            try:
                schema.models[table].validate_python(row)
                _check_columns(table, row)
            except ValidationError as error:
                problem = error.errors()[0]
                path = ".".join(map(str, problem["loc"]))
                value = "" if problem["type"] == "missing" else f" is {problem['input']!r:.80}"
                raise _unusable(table, row, f"{path:.80}{value}: {problem['msg']}") from error
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                raise _unusable(table, row, str(error)) from error
            valid_rows.append(row)
        tables[table] = tuple(valid_rows)
    checked = RunRows(rows.run_id, tables)
    _check_relations(checked, schema)
    _check_prompts(checked)
    ends: dict[str, str] = {}
    for event in map(read_event, checked["events"]):
        if event.is_terminal:
            ends[event.run_id] = event.type
    for run in checked["runs"]:  # a listener of a run without an end would wait forever
        if run["status"] in ENDED and run["run_id"] not in ends:
            raise _unusable("runs", run, f"the run is {run['status']}, but no event ends the run")
        if run["status"] == COMPLETED and ends[run["run_id"]] != StreamEventType.COMPLETE:
            raise _unusable("runs", run, f"the run is completed, but its end event is {ends[run['run_id']]}")
    return checked


def check_ended(rows: RunRows) -> RunRows:
    """Return the rows of a sealed file: one branch that ends with the run, with runs that have all ended.

    Errors: `CassetteError` that names the wrong row.
    """
    for table in ("runs", "messages"):
        for row in rows[table]:
            if row["status"] not in ENDED:
                raise _unusable(table, row, f"the status is {row['status']!r}; a sealed run has ended")
    for row in rows["runs"]:
        if row["owner"] is not None or row["completed_at"] is None:
            raise _unusable("runs", row, "the run has an owner, or no end time")
    conversation, last = rows.run["conversation_id"], dict[str, Any]()
    for row in rows["messages"]:
        before = last.get(row["conversation_id"])
        if row["parent_id"] != before or (before is not None and row["conversation_id"] != conversation):
            raise _unusable("messages", row, "the message does not follow the message before")
        last[row["conversation_id"]] = row["message_id"]
    if last.get(conversation) != rows.run["message_id"]:
        raise CassetteError(
            f"The run {rows.run_id!r:.80} does not answer the last message of its conversation: the file was modified. "
            "Record the run again."
        )
    run_ids = {row["run_id"] for row in rows["runs"]}
    started = {row["conversation_id"] for row in rows["runs"] if row["parent_run_id"] in run_ids}
    for row in rows["conversations"]:
        if row["conversation_id"] not in {conversation, *started}:
            raise _unusable("conversations", row, "no subrun in the file has this conversation")
        if row["active_message_id"] != last.get(row["conversation_id"]):
            raise _unusable("conversations", row, "the active message is not the last message of the file")
    return rows


def check_local_sources(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the rows of local sources of a sealed file; `CassetteError` for other tables, columns or types."""
    models = store_schema().local_sources
    if set(tables) != set(models):
        raise CassetteError(f"The tables of local_sources.json are not {', '.join(models)}.")
    for table, model in models.items():
        try:
            model.validate_python(tables[table])
        except ValidationError as error:
            problem = error.errors()[0]
            raise CassetteError(
                f"local_sources.json: {table}.{'.'.join(map(str, problem['loc'])):.80}: {problem['msg']}."
            ) from error
    return tables


def _check_relations(rows: RunRows, schema: Schema) -> None:
    """Check that keys are unique, that references refer to rows of the file, and that branches have no cycle."""
    for table, keys in (*KEYS.items(), *((table, (column,)) for table, column in schema.unique)):
        seen = set()
        for row in rows[table]:
            key = tuple(row[name] for name in keys)
            if key in seen:
                raise _unusable(table, row, f"the value of {', '.join(keys)} occurs twice")
            if None not in key:
                seen.add(key)
    if rows.run_id not in {row["run_id"] for row in rows["runs"]}:
        raise CassetteError(f"The run {rows.run_id!r:.80} is not in the file.")
    for table, column, target, target_key in schema.references:
        target_keys = {row[target_key] for row in rows[target]}
        is_outside = (table, column) == ("messages", "parent_id")  # a recording starts within a conversation
        for row in () if is_outside else rows[table]:
            if row.get(column) is not None and row[column] not in target_keys:
                raise _unusable(table, row, f"{column} refers to a row that is not in the file")
    hashes = text_hashes({**dict.fromkeys(KEYS, ()), "llm_calls": rows["llm_calls"]})
    if missing := sorted(hashes - set(rows.texts)):
        raise CassetteError(f"A prompt refers to the text {missing[0][:16]}, which is not in the file.")
    positions = {row["message_id"]: (index, row["conversation_id"]) for index, row in enumerate(rows["messages"])}
    for index, row in enumerate(rows["messages"]):
        parent, conversation = positions.get(row["parent_id"], (-1, row["conversation_id"]))
        if parent >= index or conversation != row["conversation_id"]:
            raise _unusable("messages", row, "the message follows no earlier message of the conversation")


def _check_prompts(rows: RunRows) -> None:
    """Check that prompts share only ordered ranges of an earlier prompt of the same job, which limits the size."""
    earlier: dict[str, tuple[Any, int, int]] = {}
    for row in rows["llm_calls"]:
        job = row["run_id"], row["job_id"]
        base, depth, length = earlier.get(row["request_base"], (job, -1, 0))
        if row["request_base"] is not None and (depth < 0 or base != job or depth >= MAX_CHAIN):
            raise _unusable("llm_calls", row, "request_base is no earlier call of its job, or in too long a chain")
        end = total = 0
        for part in orjson.loads(row["request_json"]):
            start, stop = part if is_range(part) else (end, end + 1)
            total += stop - start
            if is_range(part):
                if not end <= start < stop <= length:
                    raise _unusable(
                        "llm_calls", row, f"request_json has the range {part}, which exceeds the {length} messages"
                    )
                end = stop
        earlier[row["call_id"]] = job, depth + 1, total


def _unusable(table: str, row: Row, problem: str) -> CassetteError:
    named = " ".join(f"{row.get(key)!s:.60}" for key in KEYS[table])
    return CassetteError(f"{table} {named!a:.120}: {problem:.200}.")


# --- values inside columns --------------------------------------------------------------------------------------------

_SHA256 = re.compile(r"[0-9a-f]{64}")


class _Lenient(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Decision(_Strict):
    approved: bool
    instruction: str = ""
    decided_by: str = "user"
    params: dict[str, Any] | None = None
    scope: Scope = "once"
    instead: bool = False
    by_code: bool = True


def fork_decision(values: Mapping[str, Any]) -> Decision:
    """Return the decision of a fork from the stored fields; `replaces_call` is stored as `instead`."""
    return Decision(replaces_call=values["instead"], **{name: values[name] for name in values if name != "instead"})


class _Fork(_Strict):
    of: str
    number: int
    path: str
    step: int
    prompt: str | None = None
    model: str | None = None
    tool_result: str | None = None
    decision: _Decision | None = None


class _Graph(_Lenient):
    nodes: list[str]
    edges: list[str] = []


class _Work(_Lenient):
    write: list[str] = []
    evaluate: dict[str, Any] | None = None


class _Settings(_Lenient):
    model: str | None = None
    sources: list[str] | None = None
    budget: dict[str, Any] | None = None
    fork: _Fork | None = None
    graph_config: dict[str, Any] | None = None
    graph: _Graph | None = None
    compose: _Work | None = None


class _Agent(_Lenient):
    prompt: str
    tool_protocol: str
    tools: list[str]


class _Manifest(_Lenient):
    versions: dict[str, Any] = {}
    agents: dict[str, _Agent] = {}
    prompts: dict[str, Any] = {}
    tools: dict[str, Any] = {}
    sources: dict[str, Any] = {}


class _Offer(_Lenient):
    tool_protocol: str = ""
    tool_choice: str = ""
    tools: str | None = None
    n_native_calls: int = Field(default=0, ge=0)


class _Pause(_Lenient):
    """The fields of an event that ends a run or a segment of a run."""

    interrupted: bool | None = None
    pending: list[str] | None = None
    gates: list[list[str]] | None = None


_REQUIRED: Mapping[StreamEventType, tuple[str, ...]] = {
    StreamEventType.TOOL_START: ("tool_call_id",),
    StreamEventType.TOOL_COMPLETE: ("tool_call_id",),
    StreamEventType.PERMISSION_REQUEST: ("id",),
    StreamEventType.PERMISSION_RESULT: ("id",),
    StreamEventType.ARTIFACT_CHANGED: ("artifact_id", "version"),
    StreamEventType.SUBRUN_START: ("run_id",),
}
"""The fields that the payload of an event must have."""

_JOB_KIND = TypeAdapter(JobKind)
_CALLS = TypeAdapter(list[list[tuple[str, dict[str, Any]]]])


def _check_columns(table: str, row: Row) -> None:  # noqa: C901, PLR0912 - a case for each table
    """Check the values inside the columns of a row, whose types are valid; `ValueError` names the column."""
    for name, value in row.items():
        words = _WORDS.get(f"{table}.{name}")
        if words is not None and value is not None and value not in words:
            raise ValueError(f"{name} is {value!r:.40}, which is none of {', '.join(sorted(words))}")
    values = {name: _json(name, row[name]) for name in row if name.endswith("_json") and row[name] is not None}
    if "content" in row and "sha256" in row and hashlib.sha256(row["content"].encode()).hexdigest() != row["sha256"]:
        raise ValueError("sha256 is not the hash of its content")
    for check in ROW_CHECKS.values():
        check(table, row)
    match table:
        case "runs":
            with _named("settings"):
                settings = _Settings.model_validate(values["settings_json"])
            if settings.budget is not None:
                with _named("settings.budget"):
                    Budget.from_limits(settings.budget)
            if settings.fork is not None and settings.fork.decision is not None:
                with _named("settings.fork.decision"):
                    fork_decision(settings.fork.decision.model_dump())
            with _named("manifest"):
                _Manifest.model_validate(values.get("manifest_json", {}))
        case "plan_jobs":
            with _named("kind"):
                _JOB_KIND.validate_python(row["kind"])
            if row["n"] < 1:
                raise ValueError(f"n is {row['n']}; it must be at least 1")
        case "tool_calls":
            result = [
                row.get(name) for name in ("success", "metadata_json", "called_at", "completed_at", "duration_ms")
            ]
            if row["status"] == FINISHED and None in result:
                raise ValueError("the call is finished but has no result")
        case "approvals" if row["decision"] is not None:
            with _named("decision"):
                decision = parse_decision(row)
            is_decided = row["decided_by"] and row["decided_at"] is not None
            if decision is None or decision.choice != row["decision"] or not is_decided:
                raise ValueError(f"decision is {row['decision']!r}, and its author, time or content is missing")
        case "events":
            data, kind = values["data_json"], StreamEventType(row["event_type"])
            if row["seq"] < 1:
                raise ValueError(f"seq is {row['seq']}; it must be at least 1")
            if missing := [name for name in _REQUIRED.get(kind, ()) if data.get(name) is None]:
                raise ValueError(f"data_json has no {missing[0]}")
            if problem := payload_problem(data):
                raise ValueError(f"data_json: {problem}")
            with _named("data_json"):
                _Pause.model_validate(data)
            if data.get("interrupted") and data.get("gates") is None:
                raise ValueError("data_json lacks the requests for which the run waits")
        case "llm_calls":
            _check_model_call(row, values)


def _json(name: str, text: str) -> Any:
    kind = list if name == "request_json" else dict
    try:
        value = loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is not JSON: {error!s:.100}") from error
    if not is_shallow(value):
        raise ValueError(f"{name} is nested too deeply")
    if not isinstance(value, kind):
        raise ValueError(  # noqa: TRY004 - of a file, whatever is wrong is a value
            f"{name} is not {'a list' if kind is list else 'an object'}"
        )
    return value


@contextmanager
def _named(place: str) -> Iterator[None]:
    """Add the position of a value to the `ValueError` of its check."""
    try:
        yield
    except ValidationError as error:
        problem = error.errors()[0]
        path = ".".join([place, *map(str, problem["loc"])])
        raise ValueError(f"{path:.120} is {problem['input']!r:.80}: {problem['msg']}") from error
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error


def _check_model_call(row: Row, values: Mapping[str, Any]) -> None:
    for message in values["request_json"]:
        match message:
            case [int(), int()] if row["request_base"] is not None:  # a range of the prompt of that call
                pass
            case [str(), str(key), *calls] if _SHA256.fullmatch(key) and len(calls) <= 1:
                with _named("request_json"):
                    _CALLS.validate_python(calls)
            case _:
                raise ValueError(f"request_json holds {message!r:.80}, which is not a message")
    with _named("offer_json"):
        _Offer.model_validate(values.get("offer_json", {}))
    packed = values.get("pieces_json")
    if packed is None:
        return
    try:
        if not all(isinstance(text, str) for text in packed.get("said", {}).values()):
            raise ValueError("a piece is not a text")
        if not all(isinstance(tool, str) for _, tool, _ in packed["kinds"]):
            raise ValueError("the name of a tool is not a text")
        unpack(packed, from_microseconds(row["started_at"]), {"answer": row["content"], "reasoning": row["reasoning"]})
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"pieces_json is invalid: {error!s:.100}") from error
