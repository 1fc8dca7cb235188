"""The frame of runs: question, outcome, and aggregates over the calls, approvals and artifacts of each run."""

from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.store.frames import (
    BOOL,
    ENUM,
    FLOAT,
    IDS,
    INT,
    SCOPE_CONDITION,
    TEXT,
    TIME,
    Column,
    Frame,
    effective_status_sql,
    list_condition,
    reading_order,
    stored_columns,
    time_filters,
)
from artifactflow_nb.store.metrics import OWN_TIME_SQL, WAIT_TIME_SQL

RUN_TABLES = f"""
main.runs AS r
LEFT JOIN (
    SELECT run_id,
        count(*) FILTER (WHERE error_type IS NULL) AS n_llm_calls,
        sum(llm_duration_ms) AS llm_ms,
        count(*) FILTER (WHERE attempt > 1) AS n_retries,
        sum(input_tokens) AS input_tokens,
        sum(output_tokens) AS output_tokens,
        sum(reasoning_tokens) AS reasoning_tokens,
        sum(cache_read_tokens) AS cache_read_tokens,
        max(tokens_estimated) AS tokens_estimated,
        sum(cost_usd) AS cost_usd,
        group_concat(DISTINCT request_model) FILTER (WHERE provider <> '{COMPUTED_PROVIDER}') AS models,
        group_concat(DISTINCT response_model) FILTER (WHERE provider <> '{COMPUTED_PROVIDER}') AS response_models,
        min(started_at + ttft_ms * 1000) AS first_token_at
    FROM main.llm_calls {SCOPE_CONDITION} GROUP BY run_id
) AS l USING (run_id)
LEFT JOIN (
    SELECT run_id,
        count(*) AS n_tool_calls,
        sum(success = 0) AS n_tool_errors,
        sum(duration_ms) FILTER (WHERE {OWN_TIME_SQL}) AS tool_ms
    FROM main.tool_calls {SCOPE_CONDITION} GROUP BY run_id
) AS t USING (run_id)
LEFT JOIN (
    SELECT run_id, count(*) FILTER (WHERE coalesce(decided_by, '') NOT IN ('policy', 'reviewer')) AS n_interrupts
    FROM main.approvals {SCOPE_CONDITION} GROUP BY run_id
) AS a USING (run_id)
LEFT JOIN (
    WITH events AS (SELECT * FROM main.events {SCOPE_CONDITION}),
        approvals AS (SELECT * FROM main.approvals {SCOPE_CONDITION})
    {WAIT_TIME_SQL}
) AS w USING (run_id)
LEFT JOIN (
    SELECT run_id, count(DISTINCT artifact_id) AS n_artifacts
    FROM main.artifact_versions {SCOPE_CONDITION} GROUP BY run_id
) AS v USING (run_id)
"""  # noqa: S608 - constants only

_TOTAL_MS = "(r.completed_at - r.started_at) / 1000.0"
_ACTIVE_MS = f"max({_TOTAL_MS} - coalesce(w.wait_ms, 0), 0)"
_TTFT_MS = "max(l.first_token_at - r.started_at, 0) / 1000.0"
_ANSWER = """CASE WHEN r.status = 'completed'
    THEN (SELECT response FROM main.messages WHERE message_id = r.message_id) END"""
RUN_STATUS = effective_status_sql("r.status", "r.run_id")

RUNS = Frame(
    "runs",
    reading_order(
        "question answer status outcome error_type flow models started_at total_duration_s total_tokens cost_usd "
        "n_artifacts n_llm_calls n_tool_calls n_tool_errors n_interrupts n_retries completed_at",
        *stored_columns(IDS, TEXT, "r", run_id="Id of the run.", conversation_id="Conversation of the run."),
        *stored_columns(IDS, TEXT, "r", thread_id="LangGraph thread.", message_id="Message that the run answers."),
        *stored_columns(IDS, TEXT, "r", parent_run_id="Run that started the subrun."),
        *stored_columns("what", ENUM, "r", flow="Name of the flow."),
        *stored_columns("what", TEXT, "r", question="The question."),
        Column("answer", "what", TEXT, _ANSWER, "The answer; NA if there is none.", is_optional=True),
        Column("status", "results", ENUM, RUN_STATUS, "running, waiting, completed, failed, cancelled or abandoned."),
        *stored_columns("results", ENUM, "r", outcome="answered, partly or not_in_sources; NA if unknown."),
        *stored_columns("results", TEXT, "r", error_type="Type of the error that ended the run."),
        *stored_columns("what", ENUM, "r", mode="live, record, replay or auto."),
        Column("models", "what", TEXT, "l.models", "Models that were requested."),
        Column("response_models", "what", TEXT, "l.response_models", "Models that replied, by the endpoint's names."),
        *stored_columns("time", TIME, "r", started_at="When the run began.", completed_at="When the run ended."),
        Column(
            "total_duration_s",
            "time",
            FLOAT,
            f"round({_TOTAL_MS} / 1000, 3)",
            "Seconds from start to end of the run, with the waits for a person (`wait_ms`).",
        ),
        Column("total_duration_ms", "time", FLOAT, _TOTAL_MS, "Time from start to end."),
        Column("active_ms", "time", FLOAT, _ACTIVE_MS, "Time from start to end without `wait_ms`."),
        Column("wait_ms", "time", FLOAT, "coalesce(w.wait_ms, 0.0)", "The time that a person took to decide."),
        Column("llm_ms", "time", FLOAT, "l.llm_ms", "Sum of the durations of model calls."),
        Column("tool_ms", "time", FLOAT, "t.tool_ms", "Sum of the durations of tool calls, without delegation."),
        Column("ttft_ms", "time", FLOAT, _TTFT_MS, "Time from start to the first text."),
        Column("n_llm_calls", "counts", INT, "coalesce(l.n_llm_calls, 0)", "Model calls with a reply."),
        Column("n_tool_calls", "counts", INT, "coalesce(t.n_tool_calls, 0)", "Tool calls."),
        Column("n_tool_errors", "counts", INT, "coalesce(t.n_tool_errors, 0)", "Failed and denied tool calls."),
        Column("n_interrupts", "counts", INT, "coalesce(a.n_interrupts, 0)", "Approval requests to a person."),
        Column("n_retries", "counts", INT, "coalesce(l.n_retries, 0)", "Attempts of model calls after the first."),
        *stored_columns("tokens", INT, "l", input_tokens="Tokens of prompts.", output_tokens="Tokens of replies."),
        *stored_columns("tokens", INT, "l", reasoning_tokens="Output tokens spent on reasoning."),
        *stored_columns("tokens", INT, "l", cache_read_tokens="Input tokens read from the endpoint's cache."),
        Column("total_tokens", "tokens", INT, "l.input_tokens + l.output_tokens", "Input and output tokens."),
        *stored_columns("tokens", BOOL, "l", tokens_estimated="Whether any token count is an estimate."),
        *stored_columns("cost", FLOAT, "l", cost_usd="Cost of the model calls."),
        Column("n_artifacts", "counts", INT, "coalesce(v.n_artifacts, 0)", "Artifacts that the run wrote."),
        *stored_columns("what", TEXT, "r", package_version="Package version that executed the run."),
        *stored_columns("replay", TEXT, "r", manifest_json="Versions, models, hashes of prompts and tools."),
    ),
    RUN_TABLES,
    "r.rowid",
    {
        "run": list_condition("r.run_id", "run"),
        "conversation": list_condition("r.conversation_id", "conversation"),
        "status": list_condition(RUN_STATUS, "status"),
        **time_filters("r.started_at"),
    },
    scope="SELECT run_id FROM main.runs AS r",
    scope_condition="WHERE run_id IN scope",
    summary="question status outcome started_at total_duration_s total_tokens cost_usd run_id",
)
