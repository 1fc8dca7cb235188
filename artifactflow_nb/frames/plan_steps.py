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
_STEP_MS = f"(SELECT sum(max(completed_at - started_at, 0)) / 1000.0 FROM {_TRIES})"  # noqa: S608 - so

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
        Column("duration_ms", "time", FLOAT, _STEP_MS, "How long its attempts took that have ended, added up."),
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
            AND w.content_type = '{PLAN_TYPE}' AND plan_id_of(w.content) = p.plan_id
        ORDER BY w.version DESC LIMIT 1
    )
    JOIN json_each(v.content, '$.steps') AS s
    """,  # noqa: S608 - constants only
    "p.started_at, p.plan_id, s.key",
    of_run("p", "started_at"),
)
