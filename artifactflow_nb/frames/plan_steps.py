"""The frame of the steps of plans: their plan as it stands, and what the jobs that carried them out add up to.

A plan stands in the newest version of its artifact that is one: a text that somebody wrote over it is passed over.
"""

from artifactflow_nb.frames.columns import ENUM, FLOAT, IDS, INT, TEXT, TIME, Column, Frame, n_chars, stored
from artifactflow_nb.frames.filters import of_run
from artifactflow_nb.plans import PLAN_TYPE
from artifactflow_nb.store.artifact_versions import TASK_PLAN

_STEP = {name: f"step_text(s.value, '{name}')" for name in ("id", "title", "status", "result")}
_RESULT = f"nullif({_STEP['result']}, '')"
_TRIES = f"main.plan_jobs WHERE tool_call_id = p.tool_call_id AND kind = 'execute' AND step_id = {_STEP['id']}"


def _of_step(what: str, table: str) -> str:
    """The expression for what the calls of a step's agent add up to."""
    return f"(SELECT {what} FROM main.{table} WHERE run_id = p.run_id AND job_id IN (SELECT job_id FROM {_TRIES}))"  # noqa: S608 - constants only


_STEP_ENDED = f"(SELECT iif(count(*) = count(completed_at), max(completed_at), NULL) FROM {_TRIES})"  # noqa: S608 - so
_LASTED_US = f"(SELECT sum(max(completed_at - started_at, 0)) FROM {_TRIES})"  # noqa: S608 - so
_WENT_ON = "(SELECT ts FROM main.events WHERE run_id = p.run_id AND seq > e.seq ORDER BY seq LIMIT 1)"
_WAITED_US = f"""iif({_LASTED_US} IS NULL, NULL, (
    SELECT coalesce(sum(max(min({_WENT_ON}, t.completed_at) - e.ts, 0)), 0)
    FROM (SELECT started_at, completed_at FROM {_TRIES}) AS t
    JOIN main.events AS e ON e.run_id = p.run_id AND e.ts >= t.started_at AND e.ts < t.completed_at
    WHERE e.event_type = 'complete' AND json_extract(e.data_json, '$.interrupted')
))"""  # noqa: S608 - so
"""The pauses of the run within the attempts: each lasts until the event after it, as in `metrics.WAITED`."""

PLAN_STEPS = Frame(
    "plan_steps",
    (
        *stored(IDS, TEXT, "p", plan_id="The plan.", run_id="Its run.", tool_call_id="The call that made the plan."),
        Column("step_id", IDS, TEXT, _STEP["id"], "The step's id in its plan."),
        Column("number", "what", INT, "s.key + 1", "Its place in the plan, from 1."),
        Column("agent_name", "what", ENUM, f"(SELECT min(agent_name) FROM {_TRIES})", "Who carried it out."),  # noqa: S608 - so
        Column("title", "what", TEXT, _STEP["title"], "What is done."),
        Column("status", "outcome", ENUM, _STEP["status"], "pending, running, completed, failed or skipped."),
        Column("attempts", "outcome", INT, f"(SELECT count(*) FROM {_TRIES})", "How often it was tried."),  # noqa: S608 - so
        Column("result_chars", "outcome", INT, n_chars(_RESULT), "Characters of what came of it."),
        Column("started_at", "time", TIME, f"(SELECT min(started_at) FROM {_TRIES})", "When it began."),  # noqa: S608 - so
        Column("completed_at", "time", TIME, _STEP_ENDED, "When its last attempt ended."),
        Column(
            "duration_ms",
            "time",
            FLOAT,
            f"max({_LASTED_US} - {_WAITED_US}, 0) / 1000.0",
            "How long its attempts took that have ended, added up, without `wait_ms`.",
        ),
        Column(
            "wait_ms", "time", FLOAT, f"{_WAITED_US} / 1000.0", "The time within them that a person took to decide."
        ),
        Column(
            "n_llm_calls",
            "counts",
            INT,
            _of_step("count(*) FILTER (WHERE error_type IS NULL)", "llm_calls"),
            "Model calls that gave a reply.",
        ),
        Column("n_tool_calls", "counts", INT, _of_step("count(*)", "tool_calls"), "Tool calls."),
        Column(
            "total_tokens",
            "tokens",
            INT,
            _of_step("sum(input_tokens + output_tokens)", "llm_calls"),
            "Input and output tokens.",
        ),
        Column("cost_usd", "cost", FLOAT, _of_step("sum(cost_usd)", "llm_calls"), "What it cost."),
        Column("result", "text", TEXT, _RESULT, "What came of it, or why it failed or was skipped."),
    ),
    f"""
    main.plan_jobs AS p
    JOIN (SELECT run_id, conversation_id, message_id FROM main.runs) AS r ON r.run_id = p.run_id AND p.n = 1
    JOIN (SELECT rowid AS place, content FROM main.artifact_versions) AS v ON v.place = (
        SELECT rowid FROM main.artifact_versions AS w
        WHERE w.conversation_id = r.conversation_id AND w.artifact_id = '{TASK_PLAN}' AND w.message_id = r.message_id
            AND w.tool_call_id IS NULL AND w.content_type = '{PLAN_TYPE}' AND plan_id_of(w.content) = p.plan_id
        ORDER BY w.version DESC LIMIT 1
    )
    JOIN json_each(v.content, '$.steps') AS s
    """,  # noqa: S608 - constants only
    "p.started_at, p.plan_id, s.key",
    of_run("p", "started_at"),
)
