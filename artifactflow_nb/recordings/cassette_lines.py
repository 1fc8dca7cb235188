"""A run as the lines of a cassette, and back.

::

    {"run": 2, "after": "root", "nth": 1, "run_id": ..., "question": ..., "settings": ..., "response": ...}
    {"turn": "main", "step": 1, "attempt": 0, "agent": ..., "prompt": ..., "reply": ..., "calls": [...]}
    {"turn": "main/1.1", ...}
    {"timing": "2026-01-01T00:00:00+00:00", "run": {...}, "turns": [...], "order": {...}}
    {"end": "run-...", "sha256": ...}

The steps of an adapted graph stand in the `run` line, what they are about in the turns.
What differs between two recordings of the same content stands in the `timing` line, and in no other but for the ids.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from artifactflow_nb.approvals import BUDGET
from artifactflow_nb.events import MAIN_JOB
from artifactflow_nb.recordings import pieces as arrival
from artifactflow_nb.recordings.bounded import loads
from artifactflow_nb.recordings.cassette_values import JsonObject, Packing, Unpacking, start_of, text_key
from artifactflow_nb.recordings.counted import counted, each, n_counted
from artifactflow_nb.recordings.form_checks import check_manifest
from artifactflow_nb.recordings.graph_steps import GRAPH, base_of, check_steps, of_turn, own_jobs
from artifactflow_nb.recordings.identity import Place
from artifactflow_nb.recordings.values import RecordedRun, RecordedTurn, job_path, plan_of_job

MOST_EVENTS = 1_000_000
"""Events of one run, pieces of text included: a file that speaks of more is not unrolled."""

_MOST_EMPTY = 1000
"""Pieces of a turn without any text; a file that speaks of more would be unrolled into what has no end."""

_UNSEEN = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters that end a line or turn it around in some editors; as escapes they can be seen in a review."""

_KINDS = ("answer", "reasoning", "call")
_NO_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_PATH_NUMBERS = re.compile(r"([0-9]{1,18})")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False)
"""For values that were packed, and so are no deeper than packing allows."""

Line = bytes | memoryview
T = TypeVar("T")


class BadLine(ValueError):
    """A line that cannot be read.

    Attributes:
        index: Which line of the run, from 0.
    """

    def __init__(self, index: int, why: object) -> None:
        super().__init__(str(why))
        self.index = index


def dumped(value: JsonObject) -> bytes:
    """A line; `ValueError` for text that UTF-8 cannot hold."""
    text = _ENCODER.encode(value)
    if not text.isascii():
        text = _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return text.encode() + b"\n"


def loaded(line: Line) -> JsonObject:
    """The object of a line; `ValueError` if it holds none."""
    value = loads(line)
    if not isinstance(value, dict):
        raise ValueError("it holds no JSON object")  # noqa: TRY004 - the value is of the file, not of a caller
    return value


def text_line(text: str) -> bytes:
    """The line that keeps a text."""
    return dumped({"text": text_key(text), "is": text})


def end_line(name: str, lines: Iterable[bytes]) -> bytes:
    """The line that ends a run: the hash of its lines."""
    return dumped({"end": name, "sha256": hashlib.sha256(b"".join(lines)).hexdigest()})


# --- a run to lines --------------------------------------------------------------------------------------------------


def run_lines(run: RecordedRun, number: int, place: Place, texts: dict[str, str]) -> list[bytes]:
    """The lines of a run.

    Args:
        run: The run.
        number: Which run of the cassette it is, from 1.
        place: What makes it this run among others that ask the same.
        texts: The long texts so far, by their keys; those of the run are added.

    Errors: `ValueError` that says what of the run cannot be written.
    """
    packing = Packing(run.started_at, texts)
    turns = sorted(run.turns, key=in_order)
    if len({turn.place for turn in turns}) < len(turns):
        raise ValueError("two of its turns stand in the same place")
    if max(len(run.order), sum(len(turn.pieces) for turn in turns)) > MOST_EVENTS:
        raise ValueError(f"it has more than {MOST_EVENTS:,} events")
    said, when = packing.split(run)
    rows = [_turn(packing, turn) for turn in turns]
    timing: JsonObject = {"timing": run.started_at.isoformat(), "run": when, "turns": [row[1] for row in rows]}
    if list(run.turns) != turns:
        places = {turn.place: index for index, turn in enumerate(turns)}
        timing["sequence"] = counted(places[turn.place] for turn in run.turns)
    if run.order:
        timing["order"] = _order(packing, run.order)
    lines = [{"run": number, "after": place.after, "nth": place.nth, **said}, *(row[0] for row in rows), timing]
    written = [dumped(line) for line in lines]
    return [*written, end_line(run.run_id, written)]


def in_order(turn: RecordedTurn) -> tuple[Any, ...]:
    """What turns are sorted by: `main/2.1` comes before `main/10.1`."""
    parts = _PATH_NUMBERS.split(turn.path)
    return [int(part) if index % 2 else part for index, part in enumerate(parts)], turn.path, turn.step, turn.attempt


def _turn(packing: Packing, turn: RecordedTurn) -> tuple[JsonObject, JsonObject]:
    said, when = packing.split(turn)
    if (packed := arrival.pack(turn.pieces, turn.started_at, _texts(turn))) is not None:
        # The lists stay here, however long: they are no texts, and new with each recording.
        when["pieces"] = {**packing.json(packed, "pieces"), **{name: packed[name] for name in ("chars", "ms", "seq")}}
    return {"turn": said.pop("path"), **said}, when


def _texts(turn: RecordedTurn) -> dict[str, str]:
    """What the pieces of a turn are pieces of."""
    if turn.reply is not None:
        return {"answer": turn.reply.content, "reasoning": turn.reply.reasoning}
    return {"answer": turn.failure.partial if turn.failure else ""}


def _order(packing: Packing, order: Sequence[str]) -> JsonObject:
    lanes = {lane: index for index, lane in enumerate(dict.fromkeys(order))}
    return {"lanes": packing.json(list(lanes), "order"), "seq": counted(map(lanes.__getitem__, order))}


# --- lines to a run --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Timing:
    """The timing line, taken apart."""

    start: datetime
    run: JsonObject
    turns: list[JsonObject]
    sequence: str | None
    order: JsonObject | None


def read_run(lines: Sequence[Line], text_of: Callable[[str], str]) -> RecordedRun:
    """The run of its lines, without that which ends it.

    Args:
        lines: The lines, the `run` line first, the `timing` line last.
        text_of: Gives the text of a key; `ValueError` if there is none.

    Errors: `BadLine`.
    """
    last = len(lines) - 1
    timing = _read(last, lambda: _timing(loaded(lines[last]), last - 1))
    unpacking = Unpacking(timing.start, text_of)
    turns: list[RecordedTurn] = []
    for index, when in enumerate(timing.turns, 1):
        room = MOST_EVENTS - sum(len(turn.pieces) for turn in turns)
        turns.append(_read(index, partial(_read_turn, unpacking, lines[index], when, room)))
    if any(not in_order(before) < in_order(after) for before, after in pairwise(turns)):
        raise BadLine(1, "its turns are not in their order, or one of them is there twice")
    in_sequence = _read(last, lambda: _in_sequence(turns, timing.sequence))
    order = _read(last, lambda: _read_order(unpacking, timing.order))
    said = _read(0, lambda: _without(loaded(lines[0]), "run", "after", "nth"))
    apart = {"turns": in_sequence, "started_at": timing.start, "order": order}
    run = _read(0, lambda: unpacking.value(RecordedRun, said, timing.run, **apart))
    calls = {job_path(turn.path, turn.step, position) for turn in turns for position in range(len(turn.calls))}
    _check_jobs(turns, calls | own_jobs(run.graph_steps))
    _read(0, lambda: _check_graph(run, calls))
    _read(0, lambda: check_manifest(run.manifest))
    return run


def _check_graph(run: RecordedRun, calls: set[str]) -> None:
    if GRAPH not in run.settings:
        if run.graph_steps or run.graph_asks:
            raise ValueError("it has steps of a graph, and its settings name none")
        return
    asked = {step.about for step in run.graph_steps if step.is_interrupt}
    if len(asked) != len(run.graph_asks):
        raise ValueError("its steps do not ask what its graph_asks are about")
    budget = {f"{BUDGET}::{n}" for n in range(len(run.budget_asks))}
    check_steps(run.graph_steps, {of_turn(turn.path, turn.step) for turn in run.turns}, calls, asked | budget)


def _check_jobs(turns: Sequence[RecordedTurn], delegated: set[str]) -> None:
    """Check that each turn is of a job that a call delegates: the ids of calls follow from that."""
    jobs = {MAIN_JOB} | delegated
    for index, turn in enumerate(turns, 1):
        if base_of(turn.path) not in jobs and plan_of_job(turn.path) not in jobs:
            raise BadLine(index, f"no call delegates the job {turn.path!r:.80}")


@dataclass(frozen=True, slots=True)
class TurnOutline:
    """Who asked in a turn, and how: the prompt is left aside, which is most of a turn."""

    path: str
    agent: str
    provider: str
    model: str
    temperature: float | None
    tool_protocol: str


def read_outline(lines: Sequence[Line], text_of: Callable[[str], str]) -> tuple[JsonObject, list[TurnOutline]]:
    """The settings of a run, and who asked in its turns; arguments and errors as of `read_run`."""
    unpacking = Unpacking(_NO_TIME, text_of)
    settings = _read(0, lambda: unpacking.json_object(loaded(lines[0]).get("settings")))
    turns = [_read(n, partial(_turn_outline, unpacking, line)) for n, line in enumerate(lines[1:-1], 1)]
    return settings, turns


def _turn_outline(unpacking: Unpacking, line: Line) -> TurnOutline:
    said = loaded(line)
    prompt = said["prompt"]
    return TurnOutline(
        path=unpacking.text(said["turn"]),
        agent=unpacking.text(said["agent"]),
        provider=unpacking.text(said["provider"]),
        model=unpacking.text(prompt["model"]),
        temperature=prompt.get("temperature"),
        tool_protocol=unpacking.text(prompt.get("tool_protocol", "xml")),
    )


def _read(index: int, work: Callable[[], T]) -> T:
    """What the work on a line gives; `BadLine` for all that can be wrong with one."""
    try:
        return work()
    except BadLine:
        raise
    except (ValueError, TypeError, KeyError, OverflowError, IndexError) as error:
        raise BadLine(index, error) from error


def _timing(line: JsonObject, n_turns: int) -> _Timing:
    turns = line.get("turns")
    if not isinstance(turns, list) or len(turns) != n_turns or not all(isinstance(turn, dict) for turn in turns):
        raise ValueError(f"it does not tell the times of {n_turns} turns")
    if unknown := line.keys() - {"timing", "run", "turns", "sequence", "order"}:
        raise ValueError(f"{min(unknown)!r} is not known of it")
    return _Timing(start_of(line["timing"]), line["run"], turns, line.get("sequence"), line.get("order"))


def _without(line: JsonObject, *names: str) -> JsonObject:
    return {name: value for name, value in line.items() if name not in names}


def _read_turn(unpacking: Unpacking, line: Line, when: JsonObject, room: int) -> RecordedTurn:
    said = loaded(line)
    said["path"] = said.pop("turn")
    packed = when.pop("pieces", None)
    turn = unpacking.value(RecordedTurn, said, when)
    if packed is None:
        return turn
    packed = unpacking.json_object(packed)
    packed = _checked(packed, min(room, _n_characters(packed, turn) + _MOST_EMPTY))
    return replace(turn, pieces=tuple(arrival.unpack(packed, turn.started_at, _texts(turn))))


def _n_characters(packed: JsonObject, turn: RecordedTurn) -> int:
    """Of the texts that came in pieces; nearly every piece has one."""
    said = packed.get("said", {})
    texts = [*_texts(turn).values(), *(said.values() if isinstance(said, dict) else ())]
    return sum(len(text) for text in texts if isinstance(text, str))


def _checked(packed: JsonObject, room: int) -> Mapping[str, Any]:
    """The pieces as they are unrolled; `ValueError` if they are damaged or more than there is room for."""
    kinds, said = packed.get("kinds"), packed.get("said", {})
    if not (isinstance(kinds, list) and all(map(_is_kind, kinds)) and isinstance(said, dict)):
        raise ValueError("its pieces are damaged")
    if not all(name in _KINDS and isinstance(text, str) for name, text in said.items()):
        raise ValueError("its pieces are damaged")
    number = sum(entry[2] for entry in kinds)
    if number > room or any(n_counted(packed.get(name), number) != number for name in ("chars", "ms", "seq")):
        raise ValueError(f"its pieces do not fit to each other, or are more than {MOST_EVENTS:,} in the run")
    if "-" in packed["chars"]:
        raise ValueError("a piece is shorter than nothing")
    return packed


def _is_kind(entry: Any) -> bool:
    match entry:
        case [str(kind), str(), int(number)]:
            return kind in _KINDS and 0 < number <= MOST_EVENTS
    return False


def _in_sequence(turns: Sequence[RecordedTurn], sequence: str | None) -> tuple[RecordedTurn, ...]:
    if sequence is None:
        return tuple(turns)
    n_counted(sequence, len(turns))
    places = list(each(sequence))
    if sorted(places) != list(range(len(turns))):
        raise ValueError("the sequence of its turns is damaged")
    return tuple(turns[place] for place in places)


def _read_order(unpacking: Unpacking, order: JsonObject | None) -> tuple[str, ...]:
    if order is None:
        return ()
    lanes = [unpacking.text(lane) for lane in order["lanes"]]
    n_counted(order["seq"], MOST_EVENTS)
    if "-" in order["seq"]:
        raise ValueError("the order of its events is damaged")
    return tuple(lanes[index] for index in each(order["seq"]))
