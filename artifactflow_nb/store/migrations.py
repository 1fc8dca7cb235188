"""The schema as a list of migration steps. Each brings a store to the next version and never changes after a release.

Times are whole microseconds since 1970 in UTC. Texts of prompts are stored once, by hash, in `texts`.
"""

import sqlite3
from datetime import UTC, datetime, timedelta

from artifactflow_nb.errors import StoreError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_RELEASE_0_1_0 = """
CREATE TABLE conversations (
    conversation_id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    active_message_id TEXT,
    created_at INTEGER NOT NULL
);
CREATE TABLE messages (
    message_id TEXT PRIMARY KEY,
    conversation_id TEXT NOT NULL REFERENCES conversations ON DELETE CASCADE,
    parent_id TEXT REFERENCES messages,
    content TEXT NOT NULL,
    response TEXT,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX messages_by_conversation ON messages (conversation_id, created_at, parent_id, message_id);
CREATE INDEX messages_by_parent ON messages (parent_id);
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY,
    conversation_id TEXT NOT NULL REFERENCES conversations ON DELETE CASCADE,
    message_id TEXT NOT NULL REFERENCES messages ON DELETE CASCADE,
    thread_id TEXT NOT NULL UNIQUE,
    parent_run_id TEXT,
    flow TEXT NOT NULL,
    question TEXT NOT NULL,
    status TEXT NOT NULL,
    mode TEXT NOT NULL,
    owner TEXT,
    settings_json TEXT NOT NULL,
    error_type TEXT,
    error_message TEXT,
    started_at INTEGER NOT NULL,
    completed_at INTEGER,
    package_version TEXT NOT NULL,
    manifest_json TEXT NOT NULL DEFAULT '{}'
);
CREATE INDEX runs_by_message ON runs (message_id);
CREATE INDEX runs_by_conversation ON runs (conversation_id);
CREATE INDEX runs_by_parent ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL;
CREATE TABLE texts (sha256 TEXT PRIMARY KEY, content TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE llm_calls (
    call_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    job_id TEXT NOT NULL,
    step INTEGER NOT NULL,
    agent_name TEXT NOT NULL,
    provider TEXT NOT NULL,
    request_model TEXT NOT NULL,
    response_model TEXT,
    temperature REAL,
    finish_reason TEXT,
    started_at INTEGER NOT NULL,
    completed_at INTEGER NOT NULL,
    llm_duration_ms REAL NOT NULL,
    ttft_ms REAL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    reasoning_tokens INTEGER,
    cache_read_tokens INTEGER,
    tokens_estimated INTEGER,
    context_chars INTEGER NOT NULL,
    cost_usd REAL,
    attempt INTEGER NOT NULL,
    cassette TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    request_json TEXT NOT NULL,
    content TEXT NOT NULL,
    reasoning TEXT NOT NULL,
    error_type TEXT,
    error_message TEXT,
    offer_json TEXT,
    pieces_json TEXT,
    retry_delay_s REAL
);
CREATE INDEX llm_calls_by_run ON llm_calls (run_id, job_id, step);
CREATE UNIQUE INDEX llm_calls_once ON llm_calls (run_id, job_id, step) WHERE error_type IS NULL;
CREATE TABLE tool_calls (
    tool_call_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    call_id TEXT NOT NULL REFERENCES llm_calls ON DELETE CASCADE,
    job_id TEXT NOT NULL,
    step INTEGER NOT NULL,
    position INTEGER NOT NULL,
    agent_name TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    args_json TEXT NOT NULL,
    status TEXT NOT NULL,
    approval TEXT,
    success INTEGER,
    result TEXT,
    metadata_json TEXT,
    error_type TEXT,
    error_message TEXT,
    called_at INTEGER,
    completed_at INTEGER,
    duration_ms REAL,
    shown_chars INTEGER,
    cassette TEXT NOT NULL DEFAULT 'off',
    UNIQUE (call_id, position)
);
CREATE INDEX tool_calls_by_run ON tool_calls (run_id, job_id, step, position);
CREATE TABLE approvals (
    request_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    subject TEXT NOT NULL UNIQUE,
    tool_call_id TEXT UNIQUE REFERENCES tool_calls ON DELETE CASCADE,
    job_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    agent_name TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    title TEXT NOT NULL,
    preview TEXT NOT NULL,
    message TEXT NOT NULL,
    params_json TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    decided_at INTEGER,
    decision TEXT,
    scope TEXT,
    decided_by TEXT,
    instruction TEXT,
    edited_json TEXT,
    decision_number INTEGER,
    announced INTEGER NOT NULL DEFAULT 0,
    settled INTEGER NOT NULL DEFAULT 0,
    by_code INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX approvals_by_run ON approvals (run_id);
CREATE TABLE events (
    run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    ts INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    agent_name TEXT,
    tool_name TEXT,
    data_json TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE TABLE plan_jobs (
    job_id TEXT PRIMARY KEY,
    plan_id TEXT NOT NULL,
    run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    tool_call_id TEXT NOT NULL REFERENCES tool_calls ON DELETE CASCADE,
    n INTEGER NOT NULL,
    kind TEXT NOT NULL,
    agent_name TEXT NOT NULL,
    step_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    instruction TEXT NOT NULL,
    outcome TEXT NOT NULL DEFAULT '',
    text TEXT NOT NULL DEFAULT '',
    started_at INTEGER NOT NULL,
    completed_at INTEGER,
    UNIQUE (tool_call_id, n)
);
CREATE INDEX plan_jobs_by_run ON plan_jobs (run_id);
CREATE TABLE block_jobs (
    job_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    block_id TEXT NOT NULL,
    agent_name TEXT NOT NULL,
    instruction TEXT NOT NULL,
    seen TEXT NOT NULL,
    basis_json TEXT NOT NULL,
    started_at INTEGER NOT NULL
);
CREATE INDEX block_jobs_by_run ON block_jobs (run_id);
CREATE TABLE artifact_versions (
    conversation_id TEXT NOT NULL REFERENCES conversations ON DELETE CASCADE,
    artifact_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    title TEXT NOT NULL,
    content_type TEXT NOT NULL,
    content TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    lines_added INTEGER NOT NULL,
    lines_removed INTEGER NOT NULL,
    update_type TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    run_id TEXT,
    message_id TEXT REFERENCES messages ON DELETE CASCADE,
    tool_call_id TEXT UNIQUE,
    reason TEXT NOT NULL DEFAULT '',
    block_json TEXT,
    PRIMARY KEY (conversation_id, artifact_id, version)
);
CREATE INDEX artifact_versions_by_message ON artifact_versions (message_id);
CREATE INDEX artifact_versions_by_run ON artifact_versions (run_id, artifact_id, update_type);
CREATE INDEX artifact_versions_seen ON artifact_versions (conversation_id, artifact_id, version, message_id);
CREATE TABLE deleted_versions (
    conversation_id TEXT NOT NULL REFERENCES conversations ON DELETE CASCADE,
    artifact_id TEXT NOT NULL,
    last_version INTEGER NOT NULL,
    PRIMARY KEY (conversation_id, artifact_id)
) WITHOUT ROWID;
CREATE TABLE sources (
    source_id TEXT NOT NULL UNIQUE,
    uri TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    fetched_at INTEGER NOT NULL,
    media_type TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    n_chars INTEGER NOT NULL,
    extractor TEXT NOT NULL,
    size INTEGER,
    mtime_ns INTEGER,
    first_passage INTEGER,
    last_passage INTEGER
);
CREATE INDEX sources_by_passage ON sources (first_passage, last_passage, source_id);
CREATE TABLE sections (
    section_id INTEGER PRIMARY KEY,
    source_id TEXT NOT NULL REFERENCES sources (source_id) ON DELETE CASCADE,
    anchor TEXT NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    position INTEGER NOT NULL,
    UNIQUE (source_id, anchor)
);
CREATE TABLE passages (
    passage_id INTEGER PRIMARY KEY,
    section_id INTEGER NOT NULL REFERENCES sections ON DELETE CASCADE,
    start INTEGER NOT NULL,
    end INTEGER NOT NULL
);
CREATE INDEX passages_by_section ON passages (section_id);
CREATE VIRTUAL TABLE passage_words USING fts5 (
    title, heading, body, tokenize = "unicode61 remove_diacritics 0 tokenchars '_.,=<>!:@*/-'"
)
"""
"""The schema of the first release. Some of its indexes cover the columns of trees and lists, which are read without the
texts in the rows. A request in `approvals` is about a `subject`, which is a tool call or the budget of a run, and
`decision_number` gives the order of decisions even if the clock is set back. `deleted_versions` keeps the number of a
deleted version from being used again. The passages of a source are numbered without gaps."""

_PROMPTS = """
ALTER TABLE llm_calls ADD COLUMN request_base TEXT;
CREATE INDEX llm_calls_by_job ON llm_calls (run_id, job_id)
"""
"""The base call of a prompt; see `prompts`. The index finds a job's last call without a scan."""

_TEXTS = """
CREATE TABLE packed_texts (sha256 TEXT PRIMARY KEY, content TEXT NOT NULL);
INSERT INTO packed_texts SELECT sha256, content FROM texts;
DROP TABLE texts;
ALTER TABLE packed_texts RENAME TO texts;
CREATE TABLE events_in_order (
    run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    ts INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    agent_name TEXT,
    tool_name TEXT,
    data_json TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);
INSERT INTO events_in_order SELECT * FROM events;
DROP TABLE events;
ALTER TABLE events_in_order RENAME TO events;
CREATE TABLE text_uses (
    sha256 TEXT NOT NULL,
    run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    PRIMARY KEY (run_id, sha256)
) WITHOUT ROWID;
CREATE INDEX text_uses_by_text ON text_uses (sha256);
CREATE TABLE text_parts (
    sha256 TEXT NOT NULL REFERENCES texts ON DELETE CASCADE,
    part TEXT NOT NULL,
    PRIMARY KEY (sha256, part)
) WITHOUT ROWID;
CREATE INDEX text_parts_by_part ON text_parts (part);
INSERT OR IGNORE INTO text_uses
    SELECT json_extract(sent.value, '$[1]'), run_id FROM llm_calls l, json_each(l.request_json) AS sent
    WHERE json_type(sent.value, '$[0]') = 'text';
INSERT OR IGNORE INTO text_uses
    SELECT json_extract(offer_json, '$.tools'), run_id FROM llm_calls WHERE json_extract(offer_json, '$.tools') <> ''
"""
"""Compressed texts, and the runs and texts that use them; see `encoding`.

`events` and `texts` become tables with rowids, to which rows are appended: pages of tables without rowids were half
full, and a row of more than 1 KB took a page of its own.
"""

_GRAPHS = """
ALTER TABLE approvals ADD COLUMN allowed TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN graph_state_json TEXT
"""
"""The possible outcomes of a request, and the state of an adapted graph for the next question of its conversation."""

_VECTORS = """
CREATE TABLE passage_vectors (
    passage_id INTEGER PRIMARY KEY REFERENCES passages ON DELETE CASCADE,
    vector BLOB NOT NULL
);
CREATE TABLE vector_models (
    model TEXT PRIMARY KEY,
    dimension INTEGER NOT NULL,
    n_changes INTEGER NOT NULL DEFAULT 0,
    helps INTEGER
);
CREATE TRIGGER passage_vectors_removed AFTER DELETE ON passage_vectors
    BEGIN UPDATE vector_models SET n_changes = n_changes + 1; END
"""
"""Vectors of passages as 16-bit floats, all of one model, and whether a check has shown that they help."""

_OUTCOMES = """
ALTER TABLE runs ADD COLUMN outcome TEXT;
ALTER TABLE approvals ADD COLUMN hosts TEXT NOT NULL DEFAULT ''
"""
"""How far the answer of a run answers its question, and the hosts that a request is about."""

_WORKS = """
CREATE TABLE works (
    source_id TEXT NOT NULL REFERENCES sources (source_id) ON DELETE CASCADE,
    anchor TEXT NOT NULL,
    csl_json TEXT NOT NULL
);
CREATE INDEX works_by_source ON works (source_id)
"""
"""The publications that a source is (without an anchor) or lists, as items of CSL-JSON."""

_PUBLISHED = "ALTER TABLE approvals RENAME COLUMN announced TO published"
"""Whether the event of a decision was published; such events are stored in the same transaction."""

_STEPS = (_RELEASE_0_1_0, _PROMPTS, _TEXTS, _GRAPHS, _VECTORS, _OUTCOMES, _WORKS, _PUBLISHED)
_FIRST_VERSION = 9
"""The version of the first release, which the first step creates; each further step adds one."""
NEWEST_VERSION = _FIRST_VERSION + len(_STEPS) - 1

_OWN_TABLES = {"conversations", "messages", "runs", "events"}
"""Tables of the first step, by which a store is distinguished from the database of another application."""


def schema_version(connection: sqlite3.Connection) -> int:
    """Return the schema version of a store, 0 for an empty file, without writing to it.

    Errors: `StoreError` with the path for a store of a newer release or from before the first release, and for a
    database of another application.
    """
    needs_transaction = not connection.in_transaction
    if needs_transaction:  # one snapshot for both queries: another process may be creating the tables
        connection.execute("BEGIN")
    try:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    finally:
        if needs_transaction:
            connection.execute("ROLLBACK")
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    foreign = {name for name in tables if not name.startswith("sqlite_")}
    if foreign and not (version and tables >= _OWN_TABLES):
        listed = ", ".join(sorted(foreign)[:5])
        raise StoreError(
            f"{path} is a database of another application (its tables: {listed}). It was not changed. "
            "Move it away, or choose another data_dir."
        )
    if version and version < _FIRST_VERSION:
        raise StoreError(
            f"The store {path} was written before release 0.1.0 (schema {version}). It was not changed. Choose "
            "another data_dir."
        )
    if version > NEWEST_VERSION:
        raise StoreError(
            f"The store {path} was written by a newer release (schema {version}, this one knows {NEWEST_VERSION}). "
            "It was not changed. Update artifactflow-nb, or choose another data_dir."
        )
    return version


def steps_between(version: int, target: int) -> tuple[str, ...]:
    """The SQL of the steps from one version, 0 for an empty file, to another."""
    return _STEPS[max(version - _FIRST_VERSION + 1, 0) : target - _FIRST_VERSION + 1]


def migrate(connection: sqlite3.Connection) -> None:
    """Run the missing migration steps in one transaction.

    Errors: as for `schema_version`; the store is then unchanged.
    """
    connection.execute("BEGIN IMMEDIATE")  # other processes that open the store wait here
    try:
        version = schema_version(connection)
        for step in steps_between(version, NEWEST_VERSION):
            for statement in step.split(";\n"):
                connection.execute(statement)
        if version < NEWEST_VERSION:
            connection.execute(f"PRAGMA user_version = {NEWEST_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def to_microseconds(moment: datetime) -> int:
    """Convert an aware time to whole microseconds since 1970 in UTC."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(us: int) -> datetime:
    """Convert microseconds since 1970 to an aware time in UTC."""
    return _EPOCH + timedelta(microseconds=us)
