"""The frames of model calls, tool calls, plan steps, events, approvals, messages, artifacts and sources.

The frame of runs is in `runs.py`; plugins have frames of their own.

Tables are written with their schema, because in `query` a bare name such as `runs` is the frame and `main.runs` the
table. Filter conditions refer only to a row's own table, so that they restrict the aggregates of the row too.
"""

import sqlite3

from artifactflow_nb.analysis.frames.runs import RUNS
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.core.plan import PLAN_MEDIA_TYPE, Plan
from artifactflow_nb.errors import UsageError
from artifactflow_nb.store.artifact_versions import EDITED_BY, TASK_PLAN_ID
from artifactflow_nb.store.frames import (
    BOOL,
    ENUM,
    FLOAT,
    IDS,
    INT,
    PLUGIN_FRAMES,
    SCOPE_CONDITION,
    TEXT,
    TIME,
    Column,
    Frame,
    char_count_sql,
    effective_status_sql,
    line_count_sql,
    list_condition,
    reading_order,
    run_filters,
    stored_columns,
    text_sql,
    time_filters,
)

_NEWEST_RUN = "FROM main.runs WHERE message_id = m.message_id ORDER BY rowid DESC LIMIT 1"


# --- activity of runs -----------------------------------------------------------------------------------------------

_MIN_RATE_TOKENS, _MIN_RATE_MS = 20, 100
_STREAM_MS = "(c.llm_duration_ms - coalesce(c.ttft_ms, 0))"
_TOKENS_PER_S = f"""CASE WHEN c.output_tokens >= {_MIN_RATE_TOKENS} AND {_STREAM_MS} >= {_MIN_RATE_MS}
    THEN c.output_tokens * 1000.0 / {_STREAM_MS} END"""
_TOKENS_PER_S_MEANING = (
    f"Output tokens per second after the first text; NA below {_MIN_RATE_TOKENS} tokens or {_MIN_RATE_MS} ms."
)
_CACHED_SHARE = "c.cache_read_tokens * 1.0 / nullif(c.input_tokens, 0)"


def _model_sql(name: str) -> str:
    """Return the SQL expression for the name of a model; NULL where no language model was used."""
    return f"iif(c.provider = '{COMPUTED_PROVIDER}', NULL, c.{name})"


LLM_CALLS = Frame(
    "llm_calls",
    reading_order(
        "agent_name step request_model response_model finish_reason llm_duration_ms ttft_ms tokens_per_s "
        "input_tokens output_tokens total_tokens cost_usd error_type error_message started_at completed_at",
        *stored_columns(IDS, TEXT, "c", call_id="Id of the call.", run_id="Run of the call."),
        *stored_columns("what", INT, "c", step="Turn in the agent's job, from 1."),
        *stored_columns("what", ENUM, "c", agent_name="Calling agent."),
        *stored_columns("model", ENUM, "c", provider="Provider of the endpoint."),
        Column("request_model", "model", ENUM, _model_sql("request_model"), "Model named in the request."),
        Column("response_model", "model", ENUM, _model_sql("response_model"), "Model named in the reply."),
        *stored_columns("model", FLOAT, "c", temperature="Sampling temperature."),
        *stored_columns("results", ENUM, "c", finish_reason="Why the reply ended."),
        *stored_columns("time", TIME, "c", started_at="Time of the request.", completed_at="End of the reply."),
        *stored_columns("time", FLOAT, "c", llm_duration_ms="Time of the attempt.", ttft_ms="Until the first text."),
        Column("tokens_per_s", "time", FLOAT, _TOKENS_PER_S, _TOKENS_PER_S_MEANING),
        *stored_columns("tokens", INT, "c", input_tokens="Tokens of the prompt, including cached ones."),
        *stored_columns("tokens", INT, "c", output_tokens="Tokens of the reply, including reasoning."),
        *stored_columns("tokens", INT, "c", reasoning_tokens="Output tokens spent on reasoning."),
        *stored_columns("tokens", INT, "c", cache_read_tokens="Input tokens read from the endpoint's cache."),
        Column("cached_share", "tokens", FLOAT, _CACHED_SHARE, "Share of the input tokens read from the cache."),
        Column("total_tokens", "tokens", INT, "c.input_tokens + c.output_tokens", "Input and output tokens."),
        *stored_columns("tokens", BOOL, "c", tokens_estimated="Whether the token counts are estimates."),
        *stored_columns("tokens", INT, "c", context_chars="Characters of the prompt."),
        *stored_columns("cost", FLOAT, "c", cost_usd="Cost of the call."),
        *stored_columns("results", INT, "c", attempt="Number of the attempt, from 1."),
        Column("retries", "results", INT, "c.attempt - 1", "Failed attempts before this one."),
        *stored_columns("replay", ENUM, "c", cassette="off, recorded or hit."),
        *stored_columns("replay", TEXT, "c", request_hash="Equal for equal requests."),
        *stored_columns("results", TEXT, "c", error_type="Type of the error.", error_message="Message of the error."),
    ),
    "main.llm_calls AS c",
    "c.completed_at, c.job_id, c.step, c.attempt, c.call_id",
    run_filters("c", "started_at"),
)

_WAIT_MS = "max(a.decided_at - a.asked_at, 0) / 1000.0"
_TRUNCATED = "CASE WHEN c.status = 'finished' THEN c.shown_chars IS NOT NULL END"

TOOL_CALLS = Frame(
    "tool_calls",
    reading_order(
        "agent_name tool_name args_json success error_message error_type duration_ms approval called_at completed_at",
        *stored_columns(IDS, TEXT, "c", tool_call_id="Id of the call.", run_id="Run of the call."),
        *stored_columns("what", INT, "c", step="Turn of the agent that made the call, from 1."),
        *stored_columns("what", ENUM, "c", agent_name="Calling agent.", tool_name="Name of the tool."),
        Column("args_json", "what", TEXT, text_sql("c.args_json"), "Arguments as JSON."),
        *stored_columns("results", BOOL, "c", success="Whether the call succeeded."),
        *stored_columns("results", TEXT, "c", error_type="Type of the error.", error_message="Message to the model."),
        *stored_columns("time", TIME, "c", called_at="When the call started.", completed_at="When the call ended."),
        *stored_columns("time", FLOAT, "c", duration_ms="Duration of the call."),
        *stored_columns("decisions", ENUM, "c", approval="not_needed, policy, approved, edited, denied or instructed."),
        Column("approval_scope", "decisions", ENUM, "a.scope", "once, run, conversation or always."),
        Column("approval_wait_ms", "decisions", FLOAT, _WAIT_MS, "Time from the request to the decision."),
        Column("decided_by", "decisions", ENUM, "a.decided_by", "user, policy or reviewer."),
        Column("result_chars", "results", INT, char_count_sql(text_sql("c.result")), "Characters of the result."),
        Column("result_truncated", "results", BOOL, _TRUNCATED, "Whether the model saw only a part of the result."),
        *stored_columns("replay", ENUM, "c", cassette="off, recorded or hit."),
    ),
    "main.tool_calls AS c LEFT JOIN (SELECT * FROM main.approvals) AS a USING (tool_call_id, run_id)",
    "coalesce(c.called_at, 9e18), c.job_id, c.step, c.position, c.tool_call_id",
    run_filters("c", "called_at"),
)

EVENTS = Frame(
    "events",
    reading_order(
        "event_type agent_name tool_name t_rel_ms data_json",
        *stored_columns(IDS, TEXT, "e", run_id="Run of the event."),
        *stored_columns(IDS, INT, "e", seq="Sequence number in the run."),
        *stored_columns("time", TIME, "e", ts="Time of the event."),
        Column("t_rel_ms", "time", FLOAT, "max(e.ts - r.started_at, 0) / 1000.0", "Time since the start of the run."),
        *stored_columns("what", ENUM, "e", event_type="Type of the event."),
        *stored_columns("what", ENUM, "e", agent_name="Name of the agent.", tool_name="Name of the tool."),
        Column("data_json", "payload", TEXT, text_sql("e.data_json"), "Payload as JSON."),
    ),
    "main.events AS e JOIN (SELECT rowid AS place, run_id, started_at FROM main.runs) AS r USING (run_id)",
    "r.place, e.seq",
    run_filters("e", "ts"),
)

APPROVALS = Frame(
    "approvals",
    reading_order(
        "agent_name tool_name kind decision decided_by wait_ms params_json edited_json instruction",
        *stored_columns(IDS, TEXT, "a", request_id="Id of the request.", run_id="Run of the request."),
        *stored_columns("what", ENUM, "a", kind="tool, plan, edit, question or budget."),
        *stored_columns("what", ENUM, "a", agent_name="Requesting agent.", tool_name="Name of the tool."),
        *stored_columns("time", TIME, "a", asked_at="Time of the request.", decided_at="Time of the decision."),
        Column("wait_ms", "time", FLOAT, _WAIT_MS, "Time from the request to the decision."),
        *stored_columns("decisions", ENUM, "a", decision="approved, edited, denied or instructed."),
        *stored_columns("decisions", ENUM, "a", scope="once, run, conversation or always."),
        *stored_columns("decisions", ENUM, "a", decided_by="user, policy, reviewer, or http:, mcp: and a name."),
        *stored_columns("payload", TEXT, "a", params_json="Requested parameters."),
        *stored_columns("payload", TEXT, "a", edited_json="Parameters as edited in the decision."),
        *stored_columns("payload", TEXT, "a", instruction="Instruction to the agent that came with the decision."),
    ),
    "main.approvals AS a",
    "a.asked_at, a.request_id",
    run_filters("a", "asked_at"),
)

# A plan comes from the newest version of its artifact with the plan's id: a person may have written other versions.
_STEP_FIELDS = {name: f"json_text(s.value, '{name}')" for name in ("id", "title", "status", "result")}
_STEP_STATUS = f"coalesce(nullif({_STEP_FIELDS['status']}, ''), 'pending')"
_STEP_RESULT = f"nullif({_STEP_FIELDS['result']}, '')"
_STEP_JOBS = (
    f"main.plan_jobs WHERE tool_call_id = p.tool_call_id AND kind = 'execute' AND step_id = {_STEP_FIELDS['id']}"
)


def _step_sum_sql(aggregate: str, table: str) -> str:
    """Return the SQL expression for an aggregate over the calls of a step's jobs."""
    jobs = f"SELECT job_id FROM {_STEP_JOBS}"  # noqa: S608 - constants only
    return f"(SELECT {aggregate} FROM main.{table} WHERE run_id = p.run_id AND job_id IN ({jobs}))"  # noqa: S608 - constants only


_STEP_AGENT = f"(SELECT min(agent_name) FROM {_STEP_JOBS})"  # noqa: S608 - constants only
_STEP_STARTED_AT = f"(SELECT min(started_at) FROM {_STEP_JOBS})"  # noqa: S608 - the same
_STEP_ENDED_AT = f"(SELECT iif(count(*) = count(completed_at), max(completed_at), NULL) FROM {_STEP_JOBS})"  # noqa: S608 - the same
_STEP_DURATION_US = f"(SELECT sum(max(completed_at - started_at, 0)) FROM {_STEP_JOBS})"  # noqa: S608 - the same
_PAUSE_END = "(SELECT ts FROM main.events WHERE run_id = p.run_id AND seq > e.seq ORDER BY seq LIMIT 1)"
_STEP_WAIT_US = f"""iif({_STEP_DURATION_US} IS NULL, NULL, (
    SELECT coalesce(sum(max(min({_PAUSE_END}, t.completed_at) - e.ts, 0)), 0)
    FROM (SELECT started_at, completed_at FROM {_STEP_JOBS}) AS t
    JOIN main.events AS e ON e.run_id = p.run_id AND e.ts >= t.started_at AND e.ts < t.completed_at
    WHERE e.event_type = 'complete' AND json_extract(stored_text(e.data_json), '$.interrupted')
))"""  # noqa: S608 - the same
"""Pauses of the run during a step's jobs: each lasts until the next event, as in `store.metrics.WAIT_TIME_SQL`."""
_STEP_ACTIVE_MS = f"max({_STEP_DURATION_US} - {_STEP_WAIT_US}, 0) / 1000.0"
_STEP_LLM_CALLS = _step_sum_sql("count(*) FILTER (WHERE error_type IS NULL)", "llm_calls")
_STEP_TOKENS = _step_sum_sql("sum(input_tokens + output_tokens)", "llm_calls")


def _add_plan_functions(db: sqlite3.Connection) -> None:
    """Register `plan_id_of(text)`: the id of the plan in an artifact's text, or NULL."""

    def plan_id_of(text: str) -> str | None:
        try:
            return Plan.from_json(text).plan_id
        except UsageError:
            return None

    db.create_function("plan_id_of", 1, plan_id_of, deterministic=True)


PLAN_STEPS = Frame(
    "plan_steps",
    reading_order(
        "number title status agent_name result attempts duration_ms total_tokens cost_usd",
        *stored_columns(IDS, TEXT, "p", plan_id="Id of the plan.", run_id="Run of the plan."),
        *stored_columns(IDS, TEXT, "p", tool_call_id="Tool call that created the plan."),
        Column("step_id", IDS, TEXT, _STEP_FIELDS["id"], "Id of the step in the plan."),
        Column("number", "what", INT, "s.key + 1", "Position in the plan, from 1."),
        Column("agent_name", "what", ENUM, _STEP_AGENT, "Agent that executed the step."),
        Column("title", "what", TEXT, _STEP_FIELDS["title"], "Title of the step."),
        Column("status", "results", ENUM, _STEP_STATUS, "pending, running, completed, failed or skipped."),
        Column("attempts", "results", INT, f"(SELECT count(*) FROM {_STEP_JOBS})", "Number of attempts."),  # noqa: S608 - the same
        Column("result_chars", "results", INT, char_count_sql(_STEP_RESULT), "Characters of the result."),
        Column("started_at", "time", TIME, _STEP_STARTED_AT, "When the first attempt started."),
        Column("completed_at", "time", TIME, _STEP_ENDED_AT, "When the last attempt ended."),
        Column("duration_ms", "time", FLOAT, _STEP_ACTIVE_MS, "Duration of the completed attempts, without `wait_ms`."),
        Column(
            "wait_ms", "time", FLOAT, f"{_STEP_WAIT_US} / 1000.0", "Time in the attempts spent waiting for a person."
        ),
        Column("n_llm_calls", "counts", INT, _STEP_LLM_CALLS, "Model calls that gave a reply."),
        Column("n_tool_calls", "counts", INT, _step_sum_sql("count(*)", "tool_calls"), "Tool calls."),
        Column("total_tokens", "tokens", INT, _STEP_TOKENS, "Input and output tokens."),
        Column("cost_usd", "cost", FLOAT, _step_sum_sql("sum(cost_usd)", "llm_calls"), "Cost of the model calls."),
        Column("result", "text", TEXT, _STEP_RESULT, "Result, or the reason why the step failed or was skipped."),
    ),
    f"""
    main.plan_jobs AS p
    JOIN (SELECT run_id, conversation_id, message_id FROM main.runs) AS r ON r.run_id = p.run_id AND p.n = 1
    JOIN (SELECT rowid AS place, content FROM main.artifact_versions) AS v ON v.place = (
        SELECT rowid FROM main.artifact_versions AS w
        WHERE w.conversation_id = r.conversation_id AND w.artifact_id = '{TASK_PLAN_ID}' AND w.message_id = r.message_id
            AND w.tool_call_id IS NULL AND w.content_type = '{PLAN_MEDIA_TYPE}' AND plan_id_of(w.content) = p.plan_id
        ORDER BY w.version DESC LIMIT 1
    )
    JOIN json_each(v.content, '$.steps') AS s
    """,  # noqa: S608 - constants only
    "p.started_at, p.plan_id, s.key",
    run_filters("p", "started_at"),
    add_functions=_add_plan_functions,
)

# --- stored objects ---------------------------------------------------------------------------------------------------

_MESSAGE_TABLES = f"""
(
    WITH RECURSIVE
    up (message_id) AS (
        SELECT active_message_id FROM main.conversations {SCOPE_CONDITION}
        UNION ALL
        SELECT above.parent_id FROM up JOIN main.messages AS above USING (message_id)
    ),
    down (message_id, conversation_id, parent_id, place, depth) AS (
        SELECT message_id, conversation_id, parent_id, place, 0
        FROM (SELECT message_id, conversation_id, parent_id, rowid AS place FROM main.messages {SCOPE_CONDITION})
        WHERE +parent_id IS NULL
        UNION ALL
        SELECT below.message_id, below.conversation_id, below.parent_id, below.rowid, depth + 1
        FROM down JOIN main.messages AS below ON below.parent_id = down.message_id
    )
    SELECT message_id, depth, coalesce(message_id IN up, FALSE) AS is_active,
        row_number() OVER (PARTITION BY conversation_id, parent_id ORDER BY place) - 1 AS sibling_index,
        count(*) OVER (PARTITION BY conversation_id, parent_id) AS n_siblings
    FROM down
) AS t CROSS JOIN main.messages AS m USING (message_id)
"""  # noqa: S608 - constants only
"""SQLite's row estimates are far off here, so the query fixes the plan: `+` prevents a scan over the roots of all
conversations when a filter selects a few, and `CROSS JOIN` makes it look up each message of the tree by its id."""

_MESSAGE_STATUS = effective_status_sql("m.status", f"(SELECT run_id {_NEWEST_RUN})")

MESSAGES = Frame(
    "messages",
    reading_order(
        "content response status is_active created_at",
        *stored_columns(IDS, TEXT, "m", message_id="Id of the message.", conversation_id="Conversation."),
        *stored_columns(IDS, TEXT, "m", parent_id="Previous message on the branch; NA for a root."),
        *stored_columns("tree", INT, "t", depth="Number of earlier messages on the branch."),
        *stored_columns("tree", INT, "t", sibling_index="Index among the siblings, oldest first, from 0."),
        *stored_columns("tree", INT, "t", n_siblings="Number of siblings, including the message itself."),
        *stored_columns("tree", BOOL, "t", is_active="Whether the message is on the active branch."),
        *stored_columns("text", TEXT, "m", content="The question.", response="The answer."),
        Column("status", "results", ENUM, _MESSAGE_STATUS, "Status of the run that answers the message."),
        Column("run_id", IDS, TEXT, f"(SELECT run_id {_NEWEST_RUN})", "Run that answers the message; NA without one."),
        *stored_columns("time", TIME, "m", created_at="When the message was sent."),
    ),
    _MESSAGE_TABLES,
    "m.rowid",
    {
        "run": f"m.message_id IN (SELECT message_id FROM main.runs WHERE {list_condition('run_id', 'run')})",  # noqa: S608 - the same
        "conversation": list_condition("m.conversation_id", "conversation"),
        "status": list_condition(_MESSAGE_STATUS, "status"),
        **time_filters("m.created_at"),
    },
    scope="SELECT DISTINCT conversation_id FROM main.messages AS m",
    scope_condition="WHERE conversation_id IN scope",
)

ARTIFACTS = Frame(
    "artifacts",
    reading_order(
        "artifact_id version title update_type created_by edited_by created_at n_chars n_lines lines_added "
        "lines_removed",
        *stored_columns(IDS, TEXT, "v", artifact_id="Id of the artifact.", conversation_id="Conversation."),
        *stored_columns(IDS, INT, "v", version="Version number from 1, counted over all branches of the conversation."),
        *stored_columns("what", TEXT, "v", title="Title."),
        *stored_columns("what", ENUM, "v", content_type="Media type."),
        Column("n_chars", "size", INT, char_count_sql("v.content"), "Characters of the text."),
        Column("n_lines", "size", INT, line_count_sql("v.content"), "Lines of the text."),
        *stored_columns("size", INT, "v", lines_added="Lines added since the previous version on the branch."),
        *stored_columns("size", INT, "v", lines_removed="Lines removed since the previous version on the branch."),
        *stored_columns("size", TEXT, "v", sha256="Hash of the text."),
        *stored_columns("what", ENUM, "v", update_type="create, update, rewrite, restore, rename, arrange or delete."),
        *stored_columns("time", TIME, "v", created_at="When the version was written."),
        *stored_columns("what", ENUM, "v", created_by="Author of the version: an agent, or user."),
        Column("edited_by", "what", ENUM, EDITED_BY, "Person who edited the call before it wrote the version, or NA."),
        *stored_columns(IDS, TEXT, "v", run_id="Run that wrote the version; NA for a person."),
        *stored_columns(IDS, TEXT, "v", message_id="Message that first shows the version; NA on all branches."),
    ),
    "main.artifact_versions AS v",
    "v.created_at, v.conversation_id, v.artifact_id, v.version",
    {
        "run": list_condition("v.run_id", "run"),
        "conversation": list_condition("v.conversation_id", "conversation"),
        **time_filters("v.created_at"),
    },
)

SOURCES = Frame(
    "sources",
    reading_order(
        "title uri media_type n_chars omitted fetched_at",
        *stored_columns(IDS, TEXT, "s", source_id="Address of the source without the fragment after the number sign."),
        *stored_columns("what", TEXT, "s", uri="Path or URL of the source.", title="Title."),
        *stored_columns("time", TIME, "s", fetched_at="When the source was indexed."),
        *stored_columns("what", ENUM, "s", media_type="Media type."),
        *stored_columns("size", TEXT, "s", sha256="Hash of the file."),
        *stored_columns("size", INT, "s", n_chars="Characters of the extracted text."),
        *stored_columns("what", ENUM, "s", extractor="Reader that extracted the text."),
        *stored_columns("what", TEXT, "s", omitted="Parts of the file that are not indexed; empty for a whole file."),
    ),
    "main.sources AS s",
    "s.source_id",
    time_filters("s.fetched_at"),
)

FRAMES = (RUNS, LLM_CALLS, TOOL_CALLS, PLAN_STEPS, EVENTS, MESSAGES, ARTIFACTS, APPROVALS, SOURCES)
"""The frames of the workbench itself."""


def all_frames() -> tuple[Frame, ...]:
    """Return the frames of the workbench and of the plugins that this process uses."""
    return (*FRAMES, *(frame for _, frame in PLUGIN_FRAMES.values()))
