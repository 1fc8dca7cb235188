"""The tables, as a list of steps: each brings a store from one version to the next and is never changed afterwards.

Times are whole microseconds since 1970 in UTC. Long texts of prompts are kept once, by hash, in `texts`.
"""

import sqlite3
from datetime import UTC, datetime, timedelta

from artifactflow_nb.errors import StoreError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_FIRST = """
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
CREATE INDEX messages_by_conversation ON messages (conversation_id);
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
    package_version TEXT NOT NULL
);
CREATE INDEX runs_by_message ON runs (message_id);
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
    error_message TEXT
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
    UNIQUE (call_id, position)
);
CREATE INDEX tool_calls_by_run ON tool_calls (run_id, job_id, step, position);
CREATE TABLE approvals (
    request_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE,
    tool_call_id TEXT NOT NULL UNIQUE REFERENCES tool_calls ON DELETE CASCADE,
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
    announced INTEGER NOT NULL DEFAULT 0
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
    PRIMARY KEY (conversation_id, artifact_id, version)
);
"""

_SOURCES = """
CREATE TABLE sources (
    source_id TEXT NOT NULL UNIQUE,
    uri TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    fetched_at INTEGER NOT NULL,
    media_type TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    n_chars INTEGER NOT NULL,
    extractor TEXT NOT NULL
);
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
);
"""

_STEPS = (_FIRST, _SOURCES)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the store up to date; `StoreError` for a store that a newer release wrote, which is left as it is."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > len(_STEPS):
            raise StoreError(
                f"The store was written by a newer release (schema {version}, this one knows {len(_STEPS)}). "
                "Update artifactflow-nb, or choose another data_dir."
            )
        for step in _STEPS[version:]:
            for statement in step.split(";\n"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(_STEPS)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def to_us(moment: datetime) -> int:
    """Whole microseconds since 1970 in UTC."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def from_us(us: int) -> datetime:
    """The aware time in UTC of a stored number."""
    return _EPOCH + timedelta(microseconds=us)
