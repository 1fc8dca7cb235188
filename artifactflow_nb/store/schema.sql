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
    manifest_json TEXT NOT NULL DEFAULT '{}',
    graph_state_json TEXT,
    outcome TEXT
);
CREATE INDEX runs_by_message ON runs (message_id);
CREATE INDEX runs_by_conversation ON runs (conversation_id);
CREATE INDEX runs_by_parent ON runs (parent_run_id) WHERE parent_run_id IS NOT NULL;
CREATE TABLE texts (sha256 TEXT PRIMARY KEY, content TEXT NOT NULL);
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
    request_base TEXT,
    request_json TEXT NOT NULL,
    content TEXT NOT NULL,
    reasoning TEXT NOT NULL,
    error_type TEXT,
    error_message TEXT,
    offer_json TEXT,
    pieces_json TEXT,
    retry_delay_s REAL,
    provider_json TEXT
);
CREATE INDEX llm_calls_by_run ON llm_calls (run_id, job_id, step);
CREATE INDEX llm_calls_by_job ON llm_calls (run_id, job_id);
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
    published INTEGER NOT NULL DEFAULT 0,
    settled INTEGER NOT NULL DEFAULT 0,
    by_code INTEGER NOT NULL DEFAULT 1,
    allowed TEXT NOT NULL DEFAULT '',
    hosts TEXT NOT NULL DEFAULT ''
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
);
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
    metadata_json TEXT,
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
    omitted TEXT NOT NULL DEFAULT '',
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
    title, heading, body, tokenize = "porter unicode61 tokenchars '_'"
);
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
    BEGIN UPDATE vector_models SET n_changes = n_changes + 1; END;
CREATE TABLE source_metadata (
    source_id TEXT NOT NULL REFERENCES sources (source_id) ON DELETE CASCADE,
    anchor TEXT NOT NULL,
    metadata_json TEXT NOT NULL
);
CREATE INDEX source_metadata_by_source ON source_metadata (source_id);
CREATE TABLE plugin_tables (name TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
