"""Rows from a file are accepted, or refused with the row, the column and the value."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from recording.conftest import SampleStore
from recording.test_rows import contents, rows_of
from support import frames
from support.sample_recordings import head_of, recording, with_row
from support.sealed_files import cassette_with_new_hash, members_of, with_new_hashes
from support.sealed_store import sealed_parts

import artifactflow_nb as af
from artifactflow_nb.errors import CassetteError, StoreError
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.cassette import Cassette, one_recording
from artifactflow_nb.recording.fork import change_of
from artifactflow_nb.recording.report import manifest_changes
from artifactflow_nb.recording.rows import RunRows
from artifactflow_nb.recording.schema import check_ended, check_rows
from artifactflow_nb.recording.seal import sealed_bytes, write_sealed, write_store
from artifactflow_nb.recording.steps import steps_of
from artifactflow_nb.recording.timeline import Timeline
from artifactflow_nb.store.database import connect

Place = tuple[str | int, ...]

VALUES: tuple[Any, ...] = (None, "", -1, True, [], {}, "x" * 300, 1e308, ["x"], {"x": 1})
ENDLESS = "endless"
"""A placeholder for the number `1e999`."""

FORK = {"of": "run-1", "number": 3, "path": "main", "step": 1, "decision": {"approved": True, "scope": "once"}}
AGENT = {"prompt": "lead_agent", "tool_protocol": "xml", "tools": ["web_search"], "model": "m", "introduction": "0"}
MANIFEST: dict[str, Any] = {
    "versions": {"python": "3.11"},
    "agents": {"lead_agent": AGENT},
    **{kind: {"name": {"sha256": "0"}} for kind in ("prompts", "tools", "sources")},
}
SETTINGS: dict[str, Any] = {
    "sources": ["notes/"],
    "model": "m",
    "budget": {"tokens": 9, "when_spent": "ask"},
    "fork": FORK,
}


def places_of(value: Any, at: Place = ()) -> Iterator[Place]:
    """The paths of all values; of a list only the first two items, since other items are read in the same way."""
    if at:
        yield at
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from places_of(inner, (*at, name))
    elif isinstance(value, list):
        for number, inner in enumerate(value[:2]):
            yield from places_of(inner, (*at, number))


def odd_values(n: int, shape: int) -> list[Any]:
    """A sample of odd values, different for each shape; `...` represents a missing value."""
    values = [*VALUES, ENDLESS, ...]
    return [values[(shape + number * 5) % len(values)] for number in range(n)]


def replaced(value: Any, at: Place, new: Any) -> Any:
    """Copy the JSON with another value at a path; `...` removes the value."""
    first, *rest = at
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rest:
        copy[first] = replaced(value[first], tuple(rest), new)
    elif new is ...:
        copy.pop(first)
    else:
        copy[first] = new
    return copy


def dumped(value: Any) -> str:
    """Encode the JSON, with `1e999` for the placeholder."""
    return json.dumps(value, ensure_ascii=False).replace(f'"{ENDLESS}"', "1e999")


def with_json(rows: RunRows, table: str, column: str, value: Any, place: int = -1) -> RunRows:
    return with_row(rows, table, place, **{column: orjson.dumps(value).decode()})


def as_event(rows: RunRows, kind: str, data: Any, place: int = 1) -> RunRows:
    return with_json(with_row(rows, "events", place, event_type=kind), "events", "data_json", data, place)


def first_message(rows: RunRows) -> str:
    return str(rows["messages"][0]["message_id"])


PIECES = {"kinds": [["answer", "", 1]], "chars": "1", "ms": "0", "seq": "1"}
BAD: dict[str, tuple[Callable[[RunRows], RunRows], str]] = {
    "an unknown column": (lambda rows: with_row(rows, "runs", evil="x"), "runs .*: evil is 'x': Extra inputs"),
    "a column less": (lambda rows: with_row(rows, "runs", question=...), "question: Field required"),
    "a key less": (lambda rows: with_row(rows, "runs", run_id=None), "run_id is None"),
    "a number as text": (lambda rows: with_row(rows, "runs", started_at="1"), "started_at is '1': .*valid integer"),
    "a text as number": (lambda rows: with_row(rows, "runs", question=1), "question is 1: .*valid string"),
    "a truth as number": (lambda rows: with_row(rows, "tool_calls", success=True), "success is True"),
    "a fraction as number": (lambda rows: with_row(rows, "runs", started_at=1.5), "started_at is 1.5"),
    "a time beyond time": (lambda rows: with_row(rows, "runs", started_at=2**60), "started_at is"),
    "an endless number": (lambda rows: with_row(rows, "llm_calls", cost_usd=float("inf")), "cost_usd is inf"),
    "a list as text": (lambda rows: with_row(rows, "runs", question=["x"]), "question is"),
    "broken JSON": (lambda rows: with_row(rows, "runs", settings_json="{"), "settings_json is not JSON"),
    "other JSON": (lambda rows: with_row(rows, "events", data_json="[]"), "data_json is not an object"),
    "deep JSON": (lambda rows: with_row(rows, "events", data_json='{"a":' * 500 + "1" + "}" * 500), "data_json is n"),
    "another text than its hash": (lambda rows: with_row(rows, "texts", content="Obey."), "is not the hash"),
    "another artifact": (lambda rows: with_row(rows, "artifact_versions", content="x"), "is not the hash"),
    "a status that is none": (lambda rows: with_row(rows, "runs", status="odd"), "status is 'odd', which is none of"),
    "a call of no status": (lambda rows: with_row(rows, "tool_calls", status="x"), "status is 'x', which is none of"),
    "a call without a result": (lambda rows: with_row(rows, "tool_calls", metadata_json=None), "has no result"),
    "a decision of no kind": (lambda rows: with_row(rows, "approvals", decision="maybe"), "decision is 'maybe'"),
    "a decision of nobody": (lambda rows: with_row(rows, "approvals", decided_by=None), "time or content is missing"),
    "a decision that is another": (lambda rows: with_row(rows, "approvals", decision="edited"), "decision is 'edited'"),
    "events without an end": (
        lambda rows: replace(rows, tables={**rows.tables, "events": rows["events"][:5]}), "but no event ends the run",
    ),
    "an event of no kind": (lambda rows: with_row(rows, "events", event_type="run_code"), "event_type is 'run_code'"),
    "an event of no number": (lambda rows: with_row(rows, "events", seq=0), "seq is 0"),
    "an event without its call": (lambda rows: as_event(rows, "tool_start", {}), "data_json has no tool_call_id"),
    "an event of other types": (lambda rows: as_event(rows, "metadata", {"question": []}), "data_json: question is"),
    "an event of no milliseconds": (lambda rows: as_event(rows, "retry", {"wait_ms": "1"}), "data_json: wait_ms is"),
    "an event of no tokens": (
        lambda rows: as_event(rows, "retry", {"token_usage": {"input_tokens": []}}), "input_tokens in token_usage is",
    ),
    "a pause for nothing": (lambda rows: as_event(rows, "complete", {"interrupted": True}), "lacks the requests"),
    "a row twice": (
        lambda rows: replace(rows, tables={**rows.tables, "events": (*rows["events"], rows["events"][0])}),
        "the value of run_id, seq occurs twice",
    ),
    "a thread twice": (
        lambda rows: with_row(rows, "runs", thread_id=rows["runs"][0]["thread_id"]), "thread_id occurs twice",
    ),
    "a run elsewhere": (lambda rows: with_row(rows, "events", run_id="run-mine"), "run_id refers to a row"),
    "a version of a run elsewhere": (
        lambda rows: with_row(rows, "artifact_versions", run_id="run-mine"), "run_id refers to a row that is not in",
    ),
    "another run": (lambda rows: replace(rows, run_id="run-mine"), "'run-mine' is not in the file"),
    "no conversation": (lambda rows: replace(rows, tables={**rows.tables, "conversations": ()}), "not in the file"),
    "a circle": (lambda rows: with_row(rows, "messages", 0, parent_id=first_message(rows)), "no earlier message"),
    "a later message": (
        lambda rows: with_row(rows, "messages", 0, parent_id=rows["messages"][1]["message_id"]), "no earlier message",
    ),
    "a prompt without its text": (
        lambda rows: replace(rows, tables={**rows.tables, "texts": rows["texts"][1:]}), "which is not in the file",
    ),
    "a prompt of other things": (lambda rows: with_json(rows, "llm_calls", "request_json", [1]), "is not a message"),
    "a prompt by other names": (
        lambda rows: with_json(rows, "llm_calls", "request_json", [["user", "x"]]), "is not a message",
    ),
    "a prompt with odd calls": (
        lambda rows: with_json(rows, "llm_calls", "request_json", [["user", "0" * 64, [["name", 5]]]]), "request_json",
    ),
    "a prompt of a range": (lambda rows: with_json(rows, "llm_calls", "request_json", [[0, 500]]), "has the range"),
    "a prompt that rests on another": (
        lambda rows: with_row(rows, "llm_calls", request_base="call-mine"), "is no earlier call of its job",
    ),
    "an offer": (lambda rows: with_json(rows, "llm_calls", "offer_json", {"n_native_calls": -1}), "offer_json.n_na"),
    "pieces beyond number": (
        lambda rows: with_json(rows, "llm_calls", "pieces_json", {**PIECES, "chars": "7*99999999999"}), "is invalid",
    ),
    "pieces of another text": (lambda rows: with_json(rows, "llm_calls", "pieces_json", PIECES), "_json is invalid"),
    "a manifest": (lambda rows: with_json(rows, "runs", "manifest_json", {"agents": 1}), "manifest.agents"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_unusable_row_is_refused_with_its_column(samples: SampleStore, kind: str) -> None:
    change, match = BAD[kind]
    with pytest.raises(CassetteError, match=match):
        check_rows(change(rows_of(samples)))


NOT_SEALED: dict[str, tuple[Callable[[RunRows], RunRows], str]] = {
    "a run that waits": (lambda rows: with_row(rows, "runs", 0, status="waiting"), "the status is 'waiting'"),
    "a run with an owner": (lambda rows: with_row(rows, "runs", owner="eng-1"), "the run has an owner, or no end time"),
    "a run without an end": (lambda rows: with_row(rows, "runs", completed_at=None), "an owner, or no end time"),
    "a message elsewhere": (lambda rows: with_row(rows, "messages", 0, parent_id="msg-mine"), "does not follow"),
    "another active message": (
        lambda rows: with_row(rows, "conversations", active_message_id=first_message(rows)), "the active message",
    ),
    "a run that is not the last": (lambda rows: replace(rows, run_id=rows["runs"][0]["run_id"]), "the last message"),
}  # fmt: skip


@pytest.mark.parametrize("kind", NOT_SEALED)
def test_sealed_run_is_the_end_of_one_branch_whose_runs_have_ended(samples: SampleStore, kind: str) -> None:
    change, match = NOT_SEALED[kind]
    parts = sealed_parts(samples.path, samples.second)
    with pytest.raises(CassetteError, match=match):
        check_ended(check_rows(change(parts.rows)))
    with pytest.raises(CassetteError, match=f"cannot be sealed.*{match}"):
        sealed_bytes(replace(parts, rows=change(parts.rows)))


BAD_SETTINGS: dict[str, Any] = {
    "settings.fork is 'text'": {"fork": "text"},
    "settings.fork.to is 1: Extra inputs": {"fork": {**FORK, "to": 1}},
    "settings.fork.number is 'three'": {"fork": {**FORK, "number": "three"}},
    "settings.fork.decision.approved is 'yes'": {"fork": {**FORK, "decision": {"approved": "yes"}}},
    "settings.fork.decision: Parameters were edited": {"fork": {**FORK, "decision": {"approved": False, "params": {}}}},
    "settings.budget: The budget .* is invalid: usd": {"budget": {"usd": -1}},
    "settings.budget is 5": {"budget": 5},
    "settings.model is 5": {"model": 5},
    "settings.sources is 'notes/'": {"sources": "notes/"},
    "settings.graph_config is '/etc/fstab'": {"graph_config": "/etc/fstab"},
    "settings.skills.a is 1": {"skills": {"a": 1}},
}


@pytest.mark.parametrize("problem", BAD_SETTINGS)
def test_unusable_setting_is_refused_in_cassettes_and_sealed_files(
    tmp_path: Path, samples: SampleStore, problem: str
) -> None:
    """The error has name and value of the setting, and no row of the file is stored."""
    settings = BAD_SETTINGS[problem]
    rows = with_json(recording()[1], "runs", "settings_json", settings)
    (tmp_path / "x.jsonl").write_bytes(one_recording(head_of(rows), rows))
    cassette = Cassette.open(tmp_path / "x.jsonl")
    with pytest.raises(CassetteError, match=rf"x\.jsonl cannot be used: runs .*: {problem}"):
        cassette.rows(cassette.heads[0])
    file = forged(tmp_path / "x.afrun", samples, lambda rows: with_json(rows, "runs", "settings_json", settings))
    with af.Workbench(model=ScriptedModel([]), interactive=False, data_dir=tmp_path / "mine") as wb:
        before = contents(wb._store)
        for use in (af.open_run, wb.store.import_run):
            with pytest.raises(CassetteError, match=rf"x\.afrun cannot be used: .*: runs .*: {problem}"):
                use(file)
        assert contents(wb._store) == before


def forged(path: Path, samples: SampleStore, change: Callable[[RunRows], RunRows]) -> Path:
    """A sealed file with other rows and matching hashes."""
    parts = sealed_parts(samples.path, samples.second)
    write_sealed(path, parts)
    rows = change(parts.rows)
    members = {**members_of(path), "rows.jsonl": one_recording(replace(head_of(rows), key=""), rows)}
    path.write_bytes(with_new_hashes(members))
    return path


# --- any value in any place ------------------------------------------------------------------------------------------


def odd_rows(rows: RunRows) -> Iterator[RunRows]:
    """Copies of the rows, each with another value in one column or in one field of a JSON column."""
    seen: set[tuple[Any, ...]] = set()
    shape = 0
    for table, found in rows.tables.items():
        for number, row in enumerate(found):
            for column, value in row.items():
                is_json = column.endswith("_json") and value is not None
                for at in [(), *places_of(orjson.loads(value))] if is_json else [()]:
                    names = tuple(part for part in at if isinstance(part, str))
                    if (kind := (table, row.get("event_type"), column, len(at), names)) not in seen:
                        seen.add(kind)
                        shape += 1
                        yield from with_odd_value(rows, table, number, column, at, shape)


def with_odd_value(rows: RunRows, table: str, number: int, column: str, at: Place, shape: int) -> Iterator[RunRows]:
    for new in odd_values(2, shape):
        if at:
            value = dumped(replaced(orjson.loads(rows[table][number][column]), at, new))
            yield with_row(rows, table, number, **{column: value})
        elif new is not ENDLESS:
            is_json = column.endswith("_json") and new is not None and new is not ...
            yield with_row(rows, table, number, **{column: dumped(new) if is_json else new})


def test_any_value_of_a_field_is_refused_or_usable(samples: SampleStore, tmp_path: Path) -> None:
    """Rows that are accepted have a timeline, steps, forks, frames and differences to other manifests."""
    parts = sealed_parts(samples.path, samples.second)
    rows = with_json(parts.rows, "runs", "settings_json", SETTINGS)
    rows = with_json(rows, "runs", "manifest_json", MANIFEST)
    outcomes = {"used": 0, "refused": 0}
    for changed in odd_rows(rows):
        try:
            checked = check_ended(check_rows(changed))
        except CassetteError:
            outcomes["refused"] += 1
            continue
        Timeline.of(checked)
        steps = steps_of(checked)
        assert [step.description + step.outcome for step in steps]
        change_of(checked, 1)
        manifest_changes(orjson.loads(checked.run["manifest_json"]), MANIFEST, {"lead_agent"})
        outcomes["used"] += 1
        if outcomes["used"] % 20 == 0:
            show(tmp_path / "odd.db", replace(parts, rows=checked))
    assert min(outcomes.values()) > 100


def show(path: Path, parts: Any) -> None:
    """Write the rows into a store and read all frames of the store."""
    path.unlink(missing_ok=True)
    with closing(connect(path)) as db:
        write_store(db, parts)
    for frame in frames.all_frames():
        frames.load_frame(path, frame)
    path.unlink()


def test_rows_that_contradict_the_schema_make_no_store(samples: SampleStore, tmp_path: Path) -> None:
    """A violated constraint of the store is a clear error, too."""
    parts = sealed_parts(samples.path, samples.second)
    twice = {**parts.local_sources, "sources": [*parts.local_sources["sources"]] * 2}
    with closing(connect(tmp_path / "odd.db")) as db, pytest.raises(StoreError, match="The rows contradict each other"):
        write_store(db, replace(parts, local_sources=twice))


# --- too much of it --------------------------------------------------------------------------------------------------

MANY = b"[" + b",".join([b"1"] * 10_000_000) + b"]"
DEEP = b"[" * 32_000_000
ROOM_MB = 512
"""For a file, its members and copies of the largest: the lists in it would take three times as much."""


def files_with(value: bytes, samples: SampleStore, folder: Path) -> list[Path]:
    """Files with this value in each kind of place."""
    whole = members_of(write_sealed(folder / "whole.afrun", sealed_parts(samples.path, samples.second)))
    lines = whole["rows.jsonl"].splitlines()
    found = []
    for name in ("metrics.json", "sources.json", "local_sources.json"):
        found.append(folder / f"{name}.afrun")
        found[-1].write_bytes(with_new_hashes({**whole, name: b'{"sources": ' + value + b"}\n"}))
    for begin, name in ((b'{"recording"', b"key"), (b'{"runs"', b"settings_json"), (b'{"events"', b"data_json"),
                        (b'{"text"', b"content")):  # fmt: skip
        index = next(n for n, line in enumerate(lines) if line.startswith(begin))
        row = orjson.loads(lines[index])
        (kind,) = row
        row[kind][name.decode()] = "value"
        changed = [*lines[:index], orjson.dumps(row).replace(b'"value"', value, 1), *lines[index + 1 :]]
        found.append(folder / f"{name.decode()}.jsonl")
        found[-1].write_bytes(cassette_with_new_hash(changed))
        found.append(found[-1].with_suffix(".afrun"))
        found[-1].write_bytes(with_new_hashes({**whole, "rows.jsonl": found[-2].read_bytes()}))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="Memory is measured and limited as Linux does it.")
@pytest.mark.parametrize("value", [MANY, DEEP], ids=["many", "deep"])
def test_enormous_value_is_refused_in_little_time_and_memory(
    samples: SampleStore, tmp_path: Path, value: bytes
) -> None:
    """Ten million numbers or 32 MB of brackets are refused in every place of a file."""
    files = files_with(value, samples, tmp_path)
    script = Path(__file__).parents[1] / "support" / "open_with_little_memory.py"
    done = subprocess.run(
        [sys.executable, str(script), str(ROOM_MB), *map(str, files)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    outcomes = [orjson.loads(line) for line in done.stdout.splitlines()]
    for path, outcome in zip(files, outcomes, strict=True):
        assert path.name in outcome["error"]
        assert outcome["seconds"] < 30, "The time grows with the square of the size."
