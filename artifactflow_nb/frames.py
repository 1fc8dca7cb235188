"""The DataFrames: one frame per level, read from stored rows with the plain sqlite3 module, in the caller's thread.

Columns are declared once, with their type, where they come from and what they mean. An empty frame has the same types.
"""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from artifactflow_nb.packing import BOOL, ENUM, FLOAT, INT, TEXT, TIME, Dtype, pack
from artifactflow_nb.store.database import connect, reading
from artifactflow_nb.store.metrics import WAITED
from artifactflow_nb.store.ownership import is_gone
from artifactflow_nb.store.runs import INTERRUPTED, RUNNING

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a frame.

    Attributes:
        name: Its name; a number's name ends in its unit.
        dtype: Its pandas type; unknown is NA, never 0.
        sql: The expression that gives it.
        meaning: What it says.
    """

    name: str
    dtype: Dtype
    sql: str
    meaning: str


def _stored(dtype: Dtype, table: str, **meanings: str) -> tuple[Column, ...]:
    """Columns that stand in the store under their own names."""
    return tuple(Column(name, dtype, f"{table}.{name}", meaning) for name, meaning in meanings.items())


@dataclass(frozen=True, slots=True)
class Frame:
    """What a frame is made of: its columns, and the tables that they come from, in an order that never changes."""

    name: str
    columns: tuple[Column, ...]
    tables: str
    order: str

    @property
    def query(self) -> str:
        """The query that gives the columns in their order; `:run_id` restricts it to one run."""
        wanted = ", ".join(column.sql for column in self.columns)
        where = "WHERE :run_id IS NULL OR run_id = :run_id"
        return f"SELECT {wanted} FROM {self.tables} {where} ORDER BY {self.order}"  # noqa: S608 - constants only


_RUN_TABLES = f"""
runs
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
    FROM llm_calls GROUP BY run_id
) AS l USING (run_id)
LEFT JOIN (
    SELECT run_id,
        count(*) AS n_tool_calls,
        sum(success = 0) AS n_tool_errors,
        sum(duration_ms) FILTER (WHERE tool_name <> 'call_subagent') AS tool_ms
    FROM tool_calls GROUP BY run_id
) AS t USING (run_id)
LEFT JOIN (SELECT run_id, count(*) AS n_interrupts FROM approvals WHERE decided_by IS NOT 'policy' GROUP BY run_id)
    AS a USING (run_id)
LEFT JOIN ({WAITED}) AS w USING (run_id)
LEFT JOIN (SELECT run_id, count(DISTINCT artifact_id) AS n_artifacts FROM artifact_versions GROUP BY run_id)
    AS v USING (run_id)
"""  # noqa: S608 - constants only

_TOTAL_MS = "max(completed_at - started_at, 0) / 1000.0"  # in stores of older releases a clock set back shows
_TTFT_MS = "max(l.first_token_at - started_at, 0) / 1000.0"

RUNS = Frame(
    "runs",
    (
        *_stored(
            TEXT, "runs", run_id="The run.", conversation_id="Its conversation.", thread_id="Its LangGraph thread."
        ),
        *_stored(TEXT, "runs", message_id="The message that it answers.", parent_run_id="The run that started it."),
        *_stored(ENUM, "runs", flow="Which flow."),
        *_stored(TEXT, "runs", question="What was asked."),
        *_stored(ENUM, "runs", status="running, waiting, completed, failed, cancelled or interrupted."),
        *_stored(TEXT, "runs", error_type="What kind of error ended it."),
        *_stored(ENUM, "runs", mode="live, record, replay or auto."),
        Column("models", TEXT, "l.models", "The models that answered."),
        *_stored(TIME, "runs", started_at="When it began.", completed_at="When it ended."),
        Column("total_duration_ms", FLOAT, _TOTAL_MS, "From its beginning to its end."),
        Column(
            "active_ms",
            FLOAT,
            f"max({_TOTAL_MS} - coalesce(w.wait_ms, 0), 0)",
            "Without the time that a person took to decide.",
        ),
        Column("wait_ms", FLOAT, "coalesce(w.wait_ms, 0.0)", "The time that a person took to decide."),
        Column("llm_ms", FLOAT, "l.llm_ms", "The time of its model calls, added up."),
        Column("tool_ms", FLOAT, "t.tool_ms", "The time of its tool calls without delegation, added up."),
        Column("ttft_ms", FLOAT, _TTFT_MS, "From its beginning to the first text."),
        Column("n_llm_calls", INT, "coalesce(l.n_llm_calls, 0)", "Model calls that gave a reply."),
        Column("n_tool_calls", INT, "coalesce(t.n_tool_calls, 0)", "Tool calls."),
        Column("n_tool_errors", INT, "coalesce(t.n_tool_errors, 0)", "Those that did not succeed, denied ones too."),
        Column("n_interrupts", INT, "coalesce(a.n_interrupts, 0)", "Requests put before a person."),
        Column("n_retries", INT, "coalesce(l.n_retries, 0)", "Attempts of model calls after the first."),
        *(
            Column(name, INT, f"l.{name}", meaning)
            for name, meaning in {
                "input_tokens": "Tokens of all prompts.",
                "output_tokens": "Tokens of all replies.",
                "reasoning_tokens": "Those of the replies spent on reasoning.",
                "cache_read_tokens": "Those of the prompts read from the endpoint's cache.",
            }.items()
        ),
        Column("total_tokens", INT, "l.input_tokens + l.output_tokens", "Input and output tokens."),
        Column("tokens_estimated", BOOL, "l.tokens_estimated", "Whether any of them were estimated."),
        Column("cost_usd", FLOAT, "l.cost_usd", "What it cost."),
        Column("n_artifacts", INT, "coalesce(v.n_artifacts, 0)", "Artifacts that it wrote."),
        *_stored(TEXT, "runs", package_version="The release that ran it."),
        Column("owner", TEXT, "runs.owner", "The engine that runs it now."),
    ),
    _RUN_TABLES,
    "runs.rowid",
)

LLM_CALLS = Frame(
    "llm_calls",
    (
        *_stored(TEXT, "c", call_id="The call.", run_id="Its run."),
        *_stored(INT, "c", step="Its turn in its agent's job, from 1."),
        *_stored(ENUM, "c", agent_name="Who asked.", provider="Who answered.", request_model="The model asked for."),
        *_stored(ENUM, "c", response_model="The model that answered, as the endpoint names it."),
        *_stored(FLOAT, "c", temperature="Sampling temperature."),
        *_stored(ENUM, "c", finish_reason="Why it stopped."),
        *_stored(TIME, "c", started_at="When it was sent.", completed_at="When the reply was complete."),
        *_stored(FLOAT, "c", llm_duration_ms="How long it took.", ttft_ms="Until the first text."),
        Column(
            "tokens_per_s",
            FLOAT,
            "c.output_tokens * 1000.0 / nullif(c.llm_duration_ms - coalesce(c.ttft_ms, 0), 0)",
            "Output tokens for each second after the first text.",
        ),
        *_stored(INT, "c", input_tokens="Tokens of the prompt, cached ones included."),
        *_stored(INT, "c", output_tokens="Tokens of the reply, reasoning ones included."),
        *_stored(INT, "c", reasoning_tokens="Those spent on reasoning.", cache_read_tokens="Those read from a cache."),
        Column("total_tokens", INT, "c.input_tokens + c.output_tokens", "Input and output tokens."),
        *_stored(BOOL, "c", tokens_estimated="Whether they were estimated."),
        *_stored(INT, "c", context_chars="Characters of the prompt."),
        *_stored(FLOAT, "c", cost_usd="What it cost."),
        *_stored(INT, "c", attempt="Which attempt it was, from 1."),
        Column("retries", INT, "c.attempt - 1", "Attempts that had failed before it."),
        *_stored(ENUM, "c", cassette="off, recorded or hit."),
        *_stored(TEXT, "c", request_hash="Equal for equal requests."),
        *_stored(TEXT, "c", error_type="What kind of error it met.", error_message="What it said."),
    ),
    "llm_calls AS c",
    "c.rowid",
)

_WAIT_MS = "max(a.decided_at - a.asked_at, 0) / 1000.0"
_CUT = "CASE WHEN c.status = 'finished' THEN c.shown_chars IS NOT NULL END"

TOOL_CALLS = Frame(
    "tool_calls",
    (
        *_stored(TEXT, "c", tool_call_id="The call.", run_id="Its run."),
        *_stored(INT, "c", step="The turn that asked for it."),
        *_stored(ENUM, "c", agent_name="Who called.", tool_name="Which tool."),
        *_stored(TEXT, "c", args_json="With what."),
        *_stored(BOOL, "c", success="Whether it did what was asked."),
        *_stored(TEXT, "c", error_type="What kind of error it met.", error_message="What the model was told."),
        *_stored(TIME, "c", called_at="When it started.", completed_at="When it ended."),
        *_stored(FLOAT, "c", duration_ms="How long it took."),
        *_stored(ENUM, "c", approval="not_needed, policy, approved, edited, denied or instructed."),
        Column("approval_scope", ENUM, "a.scope", "once, run or conversation."),
        Column("approval_wait_ms", FLOAT, _WAIT_MS, "How long it waited for a decision."),
        Column("decided_by", ENUM, "a.decided_by", "Who decided."),
        Column("result_chars", INT, "length(replace(c.result, char(0), ' '))", "Characters of what it gave."),
        Column("result_truncated", BOOL, _CUT, "Whether the model saw less than all of it."),
        Column("cassette", ENUM, "'off'", "off, recorded or hit."),
    ),
    "tool_calls AS c LEFT JOIN (SELECT * FROM approvals) AS a USING (tool_call_id, run_id)",
    "coalesce(c.called_at, 9e18), c.rowid",
)

EVENTS = Frame(
    "events",
    (
        *_stored(TEXT, "e", run_id="The run."),
        *_stored(INT, "e", seq="Its place in the run."),
        Column("ts", TIME, "e.ts", "When it happened."),
        Column("t_rel_ms", FLOAT, "max(e.ts - r.started_at, 0) / 1000.0", "Since the run began."),
        *_stored(ENUM, "e", event_type="What happened.", agent_name="Which agent.", tool_name="Which tool."),
        *_stored(TEXT, "e", data_json="Its payload."),
    ),
    "events AS e JOIN (SELECT rowid AS place, run_id, started_at FROM runs) AS r USING (run_id)",
    "r.place, e.seq",
)


def load(path: Path, frame: Frame, run_id: str | None = None) -> pd.DataFrame:
    """Read a frame from a store.

    Args:
        path: The store's file.
        frame: Which frame.
        run_id: Only the rows of this run; None for all.
    """
    with reading(path), closing(connect(path, read_only=True)) as db:
        db.row_factory = None
        rows = db.execute(frame.query, {"run_id": run_id})
        arrays = pack(rows, [column.dtype for column in frame.columns])
    names = [column.name for column in frame.columns]
    result = pd.DataFrame(dict(zip(names, arrays, strict=True)), copy=False)
    result.attrs["schema"] = f"artifactflow_nb/{frame.name}/{SCHEMA_VERSION}"
    return result


def load_runs(path: Path, run_id: str | None = None) -> pd.DataFrame:
    """The frame of runs; one whose process is gone is `interrupted`."""
    runs = load(path, RUNS, run_id)
    owners = runs.pop("owner")
    gone = [
        INTERRUPTED if status == RUNNING and is_gone(path.parent, None if owner is pd.NA else owner) else status
        for status, owner in zip(runs["status"], owners, strict=True)
    ]
    runs["status"] = pd.Categorical(gone)
    return runs
