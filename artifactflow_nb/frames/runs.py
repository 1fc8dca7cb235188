"""The frame of runs: what each was asked, and what its calls, requests and artifacts add up to."""

from artifactflow_nb.frames.columns import (
    BOOL,
    ENUM,
    FLOAT,
    IDS,
    INT,
    TEXT,
    TIME,
    WITHIN,
    Column,
    Frame,
    observed,
    stored,
)
from artifactflow_nb.frames.filters import of_list, of_time
from artifactflow_nb.store.metrics import OWN_TIME, WAITED

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
        group_concat(DISTINCT coalesce(response_model, request_model)) AS models,
        min(started_at + ttft_ms * 1000) AS first_token_at
    FROM main.llm_calls {WITHIN} GROUP BY run_id
) AS l USING (run_id)
LEFT JOIN (
    SELECT run_id,
        count(*) AS n_tool_calls,
        sum(success = 0) AS n_tool_errors,
        sum(duration_ms) FILTER (WHERE {OWN_TIME}) AS tool_ms
    FROM main.tool_calls {WITHIN} GROUP BY run_id
) AS t USING (run_id)
LEFT JOIN (
    SELECT run_id, count(*) FILTER (WHERE decided_by IS NOT 'policy') AS n_interrupts
    FROM main.approvals {WITHIN} GROUP BY run_id
) AS a USING (run_id)
LEFT JOIN (
    WITH events AS (SELECT * FROM main.events {WITHIN}), approvals AS (SELECT * FROM main.approvals {WITHIN})
    {WAITED}
) AS w USING (run_id)
LEFT JOIN (
    SELECT run_id, count(DISTINCT artifact_id) AS n_artifacts FROM main.artifact_versions {WITHIN} GROUP BY run_id
) AS v USING (run_id)
"""  # noqa: S608 - constants only

_TOTAL_MS = "max(r.completed_at - r.started_at, 0) / 1000.0"  # in stores of older releases a clock set back shows
_ACTIVE_MS = f"max({_TOTAL_MS} - coalesce(w.wait_ms, 0), 0)"
_TTFT_MS = "max(l.first_token_at - r.started_at, 0) / 1000.0"
RUN_STATUS = observed("r.status", "r.owner")

RUNS = Frame(
    "runs",
    (
        *stored(
            IDS, TEXT, "r", run_id="The run.", conversation_id="Its conversation.", thread_id="Its LangGraph thread."
        ),
        *stored(IDS, TEXT, "r", message_id="The message that it answers.", parent_run_id="The run that started it."),
        *stored("what", ENUM, "r", flow="Which flow."),
        *stored("what", TEXT, "r", question="What was asked."),
        Column("status", "outcome", ENUM, RUN_STATUS, "running, waiting, completed, failed, cancelled or interrupted."),
        *stored("outcome", TEXT, "r", error_type="What kind of error ended it."),
        *stored("what", ENUM, "r", mode="live, record, replay or auto."),
        Column("models", "what", TEXT, "l.models", "The models that answered."),
        *stored("time", TIME, "r", started_at="When it began.", completed_at="When it ended."),
        Column("total_duration_ms", "time", FLOAT, _TOTAL_MS, "From its beginning to its end."),
        Column("active_ms", "time", FLOAT, _ACTIVE_MS, "Without the time that a person took to decide."),
        Column("wait_ms", "time", FLOAT, "coalesce(w.wait_ms, 0.0)", "The time that a person took to decide."),
        Column("llm_ms", "time", FLOAT, "l.llm_ms", "The time of its model calls, added up."),
        Column("tool_ms", "time", FLOAT, "t.tool_ms", "The time of its tool calls without delegation, added up."),
        Column("ttft_ms", "time", FLOAT, _TTFT_MS, "From its beginning to the first text."),
        Column("n_llm_calls", "counts", INT, "coalesce(l.n_llm_calls, 0)", "Model calls that gave a reply."),
        Column("n_tool_calls", "counts", INT, "coalesce(t.n_tool_calls, 0)", "Tool calls."),
        Column(
            "n_tool_errors", "counts", INT, "coalesce(t.n_tool_errors, 0)", "Those without success, denied ones too."
        ),
        Column("n_interrupts", "counts", INT, "coalesce(a.n_interrupts, 0)", "Requests put before a person."),
        Column("n_retries", "counts", INT, "coalesce(l.n_retries, 0)", "Attempts of model calls after the first."),
        *stored("tokens", INT, "l", input_tokens="Tokens of all prompts.", output_tokens="Tokens of all replies."),
        *stored("tokens", INT, "l", reasoning_tokens="Those of the replies spent on reasoning."),
        *stored("tokens", INT, "l", cache_read_tokens="Those of the prompts read from the endpoint's cache."),
        Column("total_tokens", "tokens", INT, "l.input_tokens + l.output_tokens", "Input and output tokens."),
        *stored("tokens", BOOL, "l", tokens_estimated="Whether any of them were estimated."),
        *stored("cost", FLOAT, "l", cost_usd="What it cost."),
        Column("n_artifacts", "counts", INT, "coalesce(v.n_artifacts, 0)", "Artifacts that it wrote."),
        *stored("what", TEXT, "r", package_version="The release that ran it."),
        *stored("replay", TEXT, "r", manifest_json="Versions, models, hashes of prompts and tools."),
    ),
    RUN_TABLES,
    "r.rowid",
    {
        "run": of_list("r.run_id", "run"),
        "conversation": of_list("r.conversation_id", "conversation"),
        "status": of_list(RUN_STATUS, "status"),
        **of_time("r.started_at"),
    },
    scope="SELECT run_id FROM main.runs AS r",
    within="WHERE run_id IN scope",
)
