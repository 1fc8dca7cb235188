"""The content of a cassette as rows of a frame: each attempt at a model turn, followed by its tool calls."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.core.text.format import clip
from artifactflow_nb.recording.cassette import Cassette
from artifactflow_nb.recording.rows import Row, RunRows
from artifactflow_nb.recording.steps import job_paths

_PREVIEW_COLUMNS = 120


def list_cassette(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """The rows of `cassette_df`; errors as for `Cassette.open`."""
    cassette = Cassette.open(Path(path))
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
        place = turn["job_id"], turn["step"]
        attempts[place] = attempts.get(place, 0) + 1
        path = paths.get(turn["job_id"], turn["job_id"])
        where = {"path": path, "step": turn["step"], "attempt": attempts[place], "agent_name": turn["agent_name"]}
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
