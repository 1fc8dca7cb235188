"""The frames: one row per run, model call, tool call, event, message, version of an artifact, request, source.

That of runs stands in `runs.py`, that of the steps of plans in `plan_steps.py`; those of projects in `blocks.py`,
`evaluations.py` and `project_runs.py`.

Tables are named with their schema: where SQL is asked by hand, a bare name is the frame, and `main.runs` the table.
Conditions refer to a row's own table alone, so that they also narrow down what is added up for the row.
"""

from artifactflow_nb.frames.blocks import BLOCKS
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
    n_chars,
    n_lines,
    observed,
    stored,
)
from artifactflow_nb.frames.evaluations import EVALUATIONS
from artifactflow_nb.frames.filters import of_list, of_run, of_time
from artifactflow_nb.frames.plan_steps import PLAN_STEPS
from artifactflow_nb.frames.project_runs import PROJECT_RUNS
from artifactflow_nb.frames.runs import RUNS

_NEWEST_RUN = "FROM main.runs WHERE message_id = m.message_id ORDER BY rowid DESC LIMIT 1"


# --- what a run did --------------------------------------------------------------------------------------------------

_TOKENS_PER_S = "c.output_tokens * 1000.0 / nullif(c.llm_duration_ms - coalesce(c.ttft_ms, 0), 0)"

LLM_CALLS = Frame(
    "llm_calls",
    (
        *stored(IDS, TEXT, "c", call_id="The call.", run_id="Its run."),
        *stored("what", INT, "c", step="Its turn in its agent's job, from 1."),
        *stored("what", ENUM, "c", agent_name="Who asked."),
        *stored("model", ENUM, "c", provider="Who answered.", request_model="The model asked for."),
        *stored("model", ENUM, "c", response_model="The model that answered, as the endpoint names it."),
        *stored("model", FLOAT, "c", temperature="Sampling temperature."),
        *stored("outcome", ENUM, "c", finish_reason="Why it stopped."),
        *stored("time", TIME, "c", started_at="When it was sent.", completed_at="When the reply was complete."),
        *stored("time", FLOAT, "c", llm_duration_ms="How long it took.", ttft_ms="Until the first text."),
        Column("tokens_per_s", "time", FLOAT, _TOKENS_PER_S, "Output tokens for each second after the first text."),
        *stored("tokens", INT, "c", input_tokens="Tokens of the prompt, cached ones included."),
        *stored("tokens", INT, "c", output_tokens="Tokens of the reply, reasoning ones included."),
        *stored("tokens", INT, "c", reasoning_tokens="Those spent on reasoning."),
        *stored("tokens", INT, "c", cache_read_tokens="Those read from a cache."),
        Column("total_tokens", "tokens", INT, "c.input_tokens + c.output_tokens", "Input and output tokens."),
        *stored("tokens", BOOL, "c", tokens_estimated="Whether they were estimated."),
        *stored("tokens", INT, "c", context_chars="Characters of the prompt."),
        *stored("cost", FLOAT, "c", cost_usd="What it cost."),
        *stored("outcome", INT, "c", attempt="Which attempt it was, from 1."),
        Column("retries", "outcome", INT, "c.attempt - 1", "Attempts that had failed before it."),
        *stored("replay", ENUM, "c", cassette="off, recorded or hit."),
        *stored("replay", TEXT, "c", request_hash="Equal for equal requests."),
        *stored("outcome", TEXT, "c", error_type="What kind of error it met.", error_message="What it said."),
    ),
    "main.llm_calls AS c",
    "c.completed_at, c.job_id, c.step, c.attempt, c.call_id",
    of_run("c", "started_at"),
)

_WAIT_MS = "max(a.decided_at - a.asked_at, 0) / 1000.0"
_CUT = "CASE WHEN c.status = 'finished' THEN c.shown_chars IS NOT NULL END"

TOOL_CALLS = Frame(
    "tool_calls",
    (
        *stored(IDS, TEXT, "c", tool_call_id="The call.", run_id="Its run."),
        *stored("what", INT, "c", step="The turn that asked for it."),
        *stored("what", ENUM, "c", agent_name="Who called.", tool_name="Which tool."),
        *stored("what", TEXT, "c", args_json="With what."),
        *stored("outcome", BOOL, "c", success="Whether it did what was asked."),
        *stored(
            "outcome", TEXT, "c", error_type="What kind of error it met.", error_message="What the model was told."
        ),
        *stored("time", TIME, "c", called_at="When it started.", completed_at="When it ended."),
        *stored("time", FLOAT, "c", duration_ms="How long it took."),
        *stored("decisions", ENUM, "c", approval="not_needed, policy, approved, edited, denied or instructed."),
        Column("approval_scope", "decisions", ENUM, "a.scope", "once, run or conversation."),
        Column("approval_wait_ms", "decisions", FLOAT, _WAIT_MS, "How long it waited for a decision."),
        Column("decided_by", "decisions", ENUM, "a.decided_by", "Who decided."),
        Column("result_chars", "outcome", INT, n_chars("c.result"), "Characters of what it gave."),
        Column("result_truncated", "outcome", BOOL, _CUT, "Whether the model saw less than all of it."),
        *stored("replay", ENUM, "c", cassette="off, recorded or hit."),
    ),
    "main.tool_calls AS c LEFT JOIN (SELECT * FROM main.approvals) AS a USING (tool_call_id, run_id)",
    "coalesce(c.called_at, 9e18), c.job_id, c.step, c.position, c.tool_call_id",
    of_run("c", "called_at"),
)

EVENTS = Frame(
    "events",
    (
        *stored(IDS, TEXT, "e", run_id="The run."),
        *stored(IDS, INT, "e", seq="Its place in the run."),
        *stored("time", TIME, "e", ts="When it happened."),
        Column("t_rel_ms", "time", FLOAT, "max(e.ts - r.started_at, 0) / 1000.0", "Since the run began."),
        *stored("what", ENUM, "e", event_type="What happened.", agent_name="Which agent.", tool_name="Which tool."),
        *stored("payload", TEXT, "e", data_json="Its payload."),
    ),
    "main.events AS e JOIN (SELECT rowid AS place, run_id, started_at FROM main.runs) AS r USING (run_id)",
    "r.place, e.seq",
    of_run("e", "ts"),
)

APPROVALS = Frame(
    "approvals",
    (
        *stored(IDS, TEXT, "a", request_id="The request.", run_id="Its run."),
        *stored("what", ENUM, "a", kind="tool, plan, edit or budget."),
        *stored("what", ENUM, "a", agent_name="Who wants to act.", tool_name="With what."),
        *stored("time", TIME, "a", asked_at="When it was put.", decided_at="When it was decided."),
        Column("wait_ms", "time", FLOAT, _WAIT_MS, "From the question to the decision."),
        *stored("decisions", ENUM, "a", decision="approved, edited, denied or instructed."),
        *stored("decisions", ENUM, "a", scope="once, run or conversation.", decided_by="user or policy."),
        *stored("payload", TEXT, "a", params_json="The parameters that were asked about."),
        *stored("payload", TEXT, "a", edited_json="The parameters that were decided on instead."),
        *stored("payload", TEXT, "a", instruction="What the agent was told along with the decision."),
    ),
    "main.approvals AS a",
    "a.asked_at, a.request_id",
    of_run("a", "asked_at"),
)

# --- what came of it -------------------------------------------------------------------------------------------------

_MESSAGE_TABLES = f"""
(
    WITH RECURSIVE
    up (message_id) AS (
        SELECT active_message_id FROM main.conversations {WITHIN}
        UNION ALL
        SELECT above.parent_id FROM up JOIN main.messages AS above USING (message_id)
    ),
    down (message_id, conversation_id, parent_id, place, depth) AS (
        SELECT message_id, conversation_id, parent_id, place, 0
        FROM (SELECT message_id, conversation_id, parent_id, rowid AS place FROM main.messages {WITHIN})
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
"""SQLite, whose estimates of rows are far off here, is told the way: `+` keeps it from the roots of all conversations
where only some are asked for, and `CROSS JOIN` has it look up each message of the tree."""

_MESSAGE_STATUS = observed("m.status", f"(SELECT owner {_NEWEST_RUN})")

MESSAGES = Frame(
    "messages",
    (
        *stored(IDS, TEXT, "m", message_id="The message.", conversation_id="Its conversation."),
        *stored(IDS, TEXT, "m", parent_id="The message before it on its branch; NA for a root."),
        *stored("tree", INT, "t", depth="How many messages come before it on its branch."),
        *stored("tree", INT, "t", sibling_index="Which of the messages in its place it is; the oldest is 0."),
        *stored("tree", INT, "t", n_siblings="How many messages stand in its place, itself included."),
        *stored("tree", BOOL, "t", is_active="Whether it is on the active branch."),
        *stored("text", TEXT, "m", content="What was asked.", response="The answer."),
        Column("status", "outcome", ENUM, _MESSAGE_STATUS, "As its run's."),
        Column("run_id", IDS, TEXT, f"(SELECT run_id {_NEWEST_RUN})", "The run that answers it; NA if none does."),
        *stored("time", TIME, "m", created_at="When it was asked."),
    ),
    _MESSAGE_TABLES,
    "m.rowid",
    {
        "run": f"m.message_id IN (SELECT message_id FROM main.runs WHERE {of_list('run_id', 'run')})",  # noqa: S608 - so
        "conversation": of_list("m.conversation_id", "conversation"),
        "status": of_list(_MESSAGE_STATUS, "status"),
        **of_time("m.created_at"),
    },
    scope="SELECT DISTINCT conversation_id FROM main.messages AS m",
    within="WHERE conversation_id IN scope",
)

ARTIFACTS = Frame(
    "artifacts",
    (
        *stored(IDS, TEXT, "v", artifact_id="The artifact.", conversation_id="Its conversation."),
        *stored(IDS, INT, "v", version="From 1, counted over all branches of the conversation."),
        *stored("what", TEXT, "v", title="Its title."),
        *stored("what", ENUM, "v", content_type="Its media type."),
        Column("n_chars", "size", INT, n_chars("v.content"), "Characters of its text."),
        Column("n_lines", "size", INT, n_lines("v.content"), "Lines of its text."),
        *stored("size", INT, "v", lines_added="Lines that the version before it on its branch did not have."),
        *stored("size", INT, "v", lines_removed="Lines that only the version before it on its branch had."),
        *stored("size", TEXT, "v", sha256="Equal for equal texts."),
        *stored("what", ENUM, "v", update_type="create, update, rewrite, restore, rename, arrange or delete."),
        *stored("time", TIME, "v", created_at="When it was written."),
        *stored("what", ENUM, "v", created_by="Who wrote it: an agent, or user."),
        *stored(IDS, TEXT, "v", run_id="The run that wrote it; NA for a person."),
        *stored(IDS, TEXT, "v", message_id="The message whose branch it is on; NA if it is on all."),
    ),
    "main.artifact_versions AS v",
    "v.created_at, v.conversation_id, v.artifact_id, v.version",
    {
        "run": of_list("v.run_id", "run"),
        "conversation": of_list("v.conversation_id", "conversation"),
        **of_time("v.created_at"),
    },
)

SOURCES = Frame(
    "sources",
    (
        *stored(IDS, TEXT, "s", source_id="The part of its addresses before the number sign."),
        *stored("what", TEXT, "s", uri="Where it came from.", title="Its title."),
        *stored("time", TIME, "s", fetched_at="When it was indexed."),
        *stored("what", ENUM, "s", media_type="What kind of file it is."),
        *stored("size", TEXT, "s", sha256="Equal for equal files."),
        *stored("size", INT, "s", n_chars="Characters of its text."),
        *stored("what", ENUM, "s", extractor="What read its text."),
    ),
    "main.sources AS s",
    "s.source_id",
    of_time("s.fetched_at"),
)

FRAMES = (
    RUNS,
    LLM_CALLS,
    TOOL_CALLS,
    PLAN_STEPS,
    EVENTS,
    MESSAGES,
    ARTIFACTS,
    BLOCKS,
    EVALUATIONS,
    PROJECT_RUNS,
    APPROVALS,
    SOURCES,
)
