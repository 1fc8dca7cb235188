"""A cassette as a frame: a row for each model turn and each tool call that is recorded in it."""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from artifactflow_nb.frames.columns import BOOL, ENUM, FLOAT, IDS, INT, TEXT, TIME, Column, Frame, stored
from artifactflow_nb.frames.filters import Columns
from artifactflow_nb.frames.reading import schema_of
from artifactflow_nb.recordings.cassette import Cassette
from artifactflow_nb.recordings.values import RecordedCall, RecordedRun, RecordedTurn
from artifactflow_nb.store.schema import to_us
from artifactflow_nb.store.storable import to_json
from artifactflow_nb.text.width import clip

if TYPE_CHECKING:
    import pandas as pd

_PREVIEW_COLUMNS = 120

CASSETTE = Frame(
    "cassette",
    (
        *stored(IDS, INT, "c", run_number="Which run of the cassette, from 1."),
        *stored(IDS, TEXT, "c", run_id="The run.", path="The job: main, or main/2.1 for what a call delegated."),
        *stored(IDS, INT, "c", step="The turn in its job, from 1.", attempt="Which attempt at it, from 1."),
        *stored(IDS, INT, "c", position="Which call of the turn, from 1; NA for the turn itself."),
        *stored("what", TEXT, "c", question="What was asked of the run."),
        *stored("what", ENUM, "c", kind="model or tool.", agent_name="Who asked.", name="Which model or tool."),
        *stored("size", INT, "c", asked_chars="Characters of the prompt, or of the call's parameters as JSON."),
        *stored("size", INT, "c", answered_chars="Characters of the reply and its reasoning, or of the result."),
        *stored("tokens", INT, "c", input_tokens="Tokens of the prompt.", output_tokens="Tokens of the reply."),
        *stored("time", TIME, "c", started_at="When it began."),
        *stored("time", FLOAT, "c", duration_ms="How long it took."),
        *stored("cost", FLOAT, "c", cost_usd="What it cost."),
        *stored("outcome", BOOL, "c", success="Whether a reply came, or the tool did what was asked."),
        *stored("outcome", ENUM, "c", error_type="What kind of error a turn met."),
        *stored("outcome", ENUM, "c", decision="approved, edited, denied or instructed, where somebody was asked."),
        *stored("text", TEXT, "c", asked="The beginning of the last message, or of the parameters."),
        *stored("text", TEXT, "c", answered="The beginning of what came back, or of what went wrong."),
    ),
    "cassette AS c",
    "c.rowid",
)


def cassette_df(path: str | os.PathLike[str], *, columns: Columns = None) -> "pd.DataFrame":
    """What a cassette holds: a row for each attempt of a model turn, each followed by its tool calls.

    Args:
        path: The cassette.
        columns: Only these columns and groups of columns: `what`, `size`, `tokens`, `time`, `cost`, `outcome`, `text`.
            The ids, which say where in which run a row stands, always come along.

    Errors: `CassetteError` for a file that is no cassette, is damaged or was changed; `UsageError` for a column.
    """
    from artifactflow_nb.frames.packing import as_frame, pack

    wanted = CASSETTE.pick(columns)
    cassette = Cassette.open(path)
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE TABLE cassette ({', '.join(column.name for column in CASSETTE.columns)})")
        slots = ", ".join("?" * len(CASSETTE.columns))
        for number, head in enumerate(cassette.runs, 1):
            rows = _rows(number, cassette.run(head.run_id))
            db.executemany(f"INSERT INTO cassette VALUES ({slots})", map(_in_columns, rows))  # noqa: S608 - only `?`
        arrays = pack(db.execute(f"{CASSETTE.select(wanted)} ORDER BY {CASSETTE.order}"), _dtypes(wanted))
    return as_frame([column.name for column in wanted], arrays, schema_of(CASSETTE.name))


def _dtypes(columns: Sequence[Column]) -> list[str]:
    return [column.dtype for column in columns]


def _in_columns(row: dict[str, Any]) -> list[Any]:
    return [row.get(column.name) for column in CASSETTE.columns]


def _rows(number: int, run: RecordedRun) -> Iterator[dict[str, Any]]:
    for turn in run.turns:
        ids = {"run_number": number, "run_id": run.run_id, "question": run.question, "agent_name": turn.agent}
        place = {"path": turn.path, "step": turn.step, "attempt": turn.attempt + 1}
        yield {**ids, **place, **_of_turn(turn)}
        for position, call in enumerate(turn.calls, 1):
            yield {**ids, **place, "position": position, **_of_call(call)}


def _of_turn(turn: RecordedTurn) -> dict[str, Any]:
    reply, failure, messages = turn.reply, turn.failure, turn.prompt.messages
    said = failure.message if failure else reply.content or reply.reasoning if reply else ""
    return {
        "kind": "model",
        "name": reply.model if reply else turn.prompt.model,
        "asked_chars": sum(message.n_chars for message in messages),
        "answered_chars": len(reply.content) + len(reply.reasoning) if reply else None,
        "input_tokens": reply.usage.input_tokens if reply else None,
        "output_tokens": reply.usage.output_tokens if reply else None,
        "started_at": to_us(turn.started_at),
        "duration_ms": turn.duration_ms,
        "cost_usd": turn.cost_usd,
        "success": reply is not None,
        "error_type": failure.error_type if failure else None,
        "asked": clip(messages[-1].content, _PREVIEW_COLUMNS) if messages else "",
        "answered": clip(said, _PREVIEW_COLUMNS),
    }


def _of_call(call: RecordedCall) -> dict[str, Any]:
    params, result = to_json(call.args), call.result
    decision = call.ask.decision if call.ask else None
    said = (result.data if result.success else result.error or result.data) if result else call.unreadable
    return {
        "kind": "tool",
        "name": call.tool,
        "asked_chars": len(params),
        "answered_chars": len(result.data) if result else None,
        "started_at": to_us(call.called_at) if call.called_at else None,
        "duration_ms": call.duration_ms if result else None,
        "success": result.success if result else None,
        "decision": decision.word if decision else None,
        "asked": clip(params, _PREVIEW_COLUMNS),
        "answered": clip(said or "", _PREVIEW_COLUMNS),
    }
