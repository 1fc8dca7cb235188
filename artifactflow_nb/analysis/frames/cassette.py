"""The frame of a cassette: one row per recorded model turn or tool call."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from artifactflow_nb.analysis.frames.computed import frame_from_rows
from artifactflow_nb.core.local_files import absolute_path
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.core.text.format import clip
from artifactflow_nb.recording.cassette import Cassette
from artifactflow_nb.recording.rows import Row, RunRows
from artifactflow_nb.recording.steps import job_paths
from artifactflow_nb.store.frames import BOOL, ENUM, FLOAT, IDS, INT, TEXT, TIME, ColumnSelection, Frame, stored_columns

if TYPE_CHECKING:
    import pandas as pd

_PREVIEW_COLUMNS = 120


def list_cassette(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """List the rows of `cassette_df`; errors as for `Cassette.open`."""
    cassette = Cassette.open(absolute_path(path))
    number = 0
    for head in cassette.heads:
        rows = cassette.rows(head)
        for run in rows["runs"]:
            number += 1
            for row in _of_run(rows, run):
                yield {"run_number": number, "run_id": run["run_id"], "question": run["question"], **row}


def _of_run(rows: RunRows, run: Row) -> Iterator[dict[str, Any]]:
    paths = job_paths(rows, run["run_id"])
    decisions = {row["tool_call_id"]: row["decision"] for row in rows["approvals"]}
    attempts: dict[tuple[str, int], int] = {}
    for turn in rows["llm_calls"]:
        if turn["run_id"] != run["run_id"]:
            continue
        key = turn["job_id"], turn["step"]
        attempts[key] = attempts.get(key, 0) + 1
        path = paths.get(turn["job_id"], turn["job_id"])
        where = {"path": path, "step": turn["step"], "attempt": attempts[key], "agent_name": turn["agent_name"]}
        yield {**where, **_turn(turn, rows)}
        for call in rows.calls_of_replies.get(turn["call_id"], ()):
            yield {**where, "position": call["position"] + 1, **_call(call, decisions.get(call["tool_call_id"]))}


def _turn(row: Row, rows: RunRows) -> dict[str, Any]:
    prompt = rows.prompts[row["call_id"]]
    has_failed = row["error_type"] is not None
    model = row["request_model"] if has_failed else row["response_model"] or row["request_model"]
    answer = row["error_message"] if has_failed else row["content"] or row["reasoning"]
    return {
        "kind": "model",
        "name": None if row["provider"] == COMPUTED_PROVIDER else model,
        "asked_chars": row["context_chars"],
        "answered_chars": None if has_failed else len(row["content"]) + len(row["reasoning"]),
        "input_tokens": row["input_tokens"],
        "output_tokens": row["output_tokens"],
        "started_at": row["started_at"],
        "duration_ms": row["llm_duration_ms"],
        "cost_usd": row["cost_usd"],
        "success": not has_failed,
        "error_type": row["error_type"],
        "asked": clip(rows.texts[prompt[-1][1]], _PREVIEW_COLUMNS) if prompt else "",
        "answered": clip(answer or "", _PREVIEW_COLUMNS),
    }


def _call(row: Row, decision: str | None) -> dict[str, Any]:
    is_finished = row["status"] == "finished"
    result = row["result"] if row["success"] else row["error_message"] or row["result"]
    return {
        "kind": "tool",
        "name": row["tool_name"],
        "asked_chars": len(row["args_json"]),
        "answered_chars": len(row["result"] or "") if is_finished else None,
        "started_at": row["called_at"],
        "duration_ms": row["duration_ms"],
        "success": row["success"] if is_finished else None,
        "decision": decision,
        "asked": clip(row["args_json"], _PREVIEW_COLUMNS),
        "answered": clip(result or "", _PREVIEW_COLUMNS),
    }


CASSETTE = Frame(
    "cassette",
    (
        *stored_columns(IDS, INT, "c", run_number="Number of the run in the cassette, from 1."),
        *stored_columns(IDS, TEXT, "c", run_id="Id of the run.", path="Path of the job: main, or main/2.1 for a call."),
        *stored_columns(IDS, INT, "c", step="Turn in the job, from 1.", attempt="Attempt at the turn, from 1."),
        *stored_columns(IDS, INT, "c", position="Number of the call in the turn, from 1; NA for the turn itself."),
        *stored_columns("what", TEXT, "c", question="Question of the run."),
        *stored_columns("what", ENUM, "c", kind="model or tool.", agent_name="Calling agent."),
        *stored_columns("what", ENUM, "c", name="Name of the model or tool."),
        *stored_columns("size", INT, "c", asked_chars="Characters of the prompt, or of the parameters as JSON."),
        *stored_columns("size", INT, "c", answered_chars="Characters of reply and reasoning, or of the result."),
        *stored_columns("tokens", INT, "c", input_tokens="Tokens of the prompt.", output_tokens="Tokens of the reply."),
        *stored_columns("time", TIME, "c", started_at="When the call started."),
        *stored_columns("time", FLOAT, "c", duration_ms="Duration of the call."),
        *stored_columns("cost", FLOAT, "c", cost_usd="Cost of the call."),
        *stored_columns("results", BOOL, "c", success="Whether there is a reply, or the tool call succeeded."),
        *stored_columns("results", ENUM, "c", error_type="Type of the error of a turn."),
        *stored_columns("results", ENUM, "c", decision="approved, edited, denied or instructed; NA without a request."),
        *stored_columns("text", TEXT, "c", asked="Start of the last message, or of the parameters."),
        *stored_columns("text", TEXT, "c", answered="Start of the reply, of the result, or of the error message."),
    ),
    "cassette AS c",
    "c.rowid",
)


def cassette_df(path: str | os.PathLike[str], *, columns: ColumnSelection = None) -> "pd.DataFrame":
    """Load a cassette as a frame: one row per attempt of a model turn, each followed by its tool calls.

    Args:
        path: The cassette.
        columns: Columns and groups of columns: `what`, `size`, `tokens`, `time`, `cost`, `results`, `text`. The ids,
            which give run and position, are always included.

    Errors: `CassetteError` for a file that is not a cassette, is damaged or was changed; `UsageError` for an unknown
        column.
    """
    selected = {column.name: column.dtype for column in CASSETTE.select_columns(columns)}
    rows = [tuple(row.get(name) for name in selected) for row in list_cassette(path)]
    return frame_from_rows(CASSETTE.name, selected, rows)
