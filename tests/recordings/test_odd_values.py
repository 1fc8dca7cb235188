"""A file in which one value is another one, its hashes made anew: read, or refused with what is wrong."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from recordings.conftest import Worked
from recordings.fields import ENDLESS, VALUES, Place, dumped, fields, replaced
from recordings.generated import a_call, a_run, a_turn
from recordings.test_rows import contents, rows_of
from recordings.test_sealed import manifest_of, members

import artifactflow_nb as af
from artifactflow_nb.ambient import SystemClock
from artifactflow_nb.approvals import Decision
from artifactflow_nb.errors import CassetteError
from artifactflow_nb.manifest import changes
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recordings.cassette import Cassette
from artifactflow_nb.recordings.cassette_file import cassette_bytes
from artifactflow_nb.recordings.cassette_lines import end_line
from artifactflow_nb.recordings.player import Player
from artifactflow_nb.recordings.reading import load_branch
from artifactflow_nb.recordings.row_masks import sha256
from artifactflow_nb.recordings.rows import Rows
from artifactflow_nb.recordings.scratch import make_store
from artifactflow_nb.recordings.sealed import Parts, read_sealed, write_sealed
from artifactflow_nb.recordings.values import RecordedAsk
from artifactflow_nb.recordings.zipped import zipped
from artifactflow_nb.store.database import connect

FORK = {"of": "run-1", "number": 3, "path": "main", "step": 1, "decision": {"approved": True, "scope": "once"}}
AGENT = {"prompt": "lead_agent", "tool_protocol": "xml", "tools": ["web_search"], "model": "m", "introduction": "0"}
MANIFEST = {
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


def odd(values: int, shape: int) -> list[Any]:
    """Some of the values, others for each shape."""
    every = [*VALUES, ENDLESS, ...]
    return [every[(shape + number * 5) % len(every)] for number in range(values)]


# --- a cassette ------------------------------------------------------------------------------------------------------


def a_cassette() -> list[bytes]:
    ask = RecordedAsk("tool", "", a_run().started_at, a_run().started_at, Decision(approved=False, instruction="No."))
    turns = [a_turn(calls=(a_call("call_subagent"), a_call(ask=ask))), a_turn("main/1.1"), a_turn(step=2)]
    forked = a_run(turns=turns, settings=SETTINGS, manifest=MANIFEST)
    return cassette_bytes([forked]).split(b"\n")[:-1]


def resealed(lines: list[bytes], index: int, line: bytes) -> bytes:
    """The file with another line, as somebody makes it who knows how."""
    start, end = (n for n, there in enumerate(lines) if there.startswith((b'{"run"', b'{"end": "run-')))
    lines = [line if at == index else there for at, there in enumerate(lines)]
    if index != end:
        lines[end] = end_line("run-1", [there + b"\n" for there in lines[start:end]])[:-1]
    return b"".join(there + b"\n" for there in lines)


def test_whatever_a_field_of_a_cassette_holds_it_is_read_or_refused(tmp_path: Path) -> None:
    """Each field of each line in turn is something else: the run can be played then, or the line is told."""
    lines, path, outcomes = a_cassette(), tmp_path / "x.jsonl", Counter[str]()
    for index, line in enumerate(lines):
        value = json.loads(line)
        for shape, at in enumerate(fields(value)):
            for new in odd(4, shape):
                path.write_bytes(resealed(lines, index, dumped(replaced(value, at, new)).encode()))
                try:
                    cassette = Cassette.open(path)
                    for head in cassette.runs:
                        run = cassette.run(head.run_id)
                        Player(run, SystemClock())
                        changes(run.manifest, MANIFEST, {"lead_agent"})
                    outcomes["read"] += 1
                except CassetteError as error:
                    outcomes["refused" if str(error).startswith(str(path)) else "unclear"] += 1
    assert set(outcomes) == {"read", "refused"}
    assert min(outcomes.values()) > 100


SETTINGS_THAT_ARE_NONE: dict[str, Any] = {
    "settings: fork is 'text'": {"fork": "text"},
    "settings: 'to' is not known of a Change": {"fork": {**FORK, "to": 1}},
    "settings: number is 'three', which does not fit": {"fork": {**FORK, "number": "three"}},
    "settings.fork.decision: approved is 'yes'": {"fork": {**FORK, "decision": {"approved": "yes"}}},
    "settings.budget: The budget .* cannot be: usd": {"budget": {"usd": -1}},
    "settings: budget is 5, which does not fit": {"budget": 5},
    "settings: model is 5, which does not fit": {"model": 5},
    "settings: sources is 'notes/', which does not fit": {"sources": "notes/"},
    "settings: graph_config is '/etc/fstab', which does not fit": {"graph_config": "/etc/fstab"},
}


@pytest.mark.parametrize("told", SETTINGS_THAT_ARE_NONE)
def test_settings_that_are_none_are_told(tmp_path: Path, worked: Worked, told: str) -> None:
    """A cassette and a sealed file with the same wrong setting are both refused, with its name and value."""
    settings = SETTINGS_THAT_ARE_NONE[told]
    lines = a_cassette()
    index = next(n for n, line in enumerate(lines) if line.startswith(b'{"run"'))
    path = tmp_path / "x.jsonl"
    path.write_bytes(resealed(lines, index, dumped(json.loads(lines[index]) | {"settings": settings}).encode()))
    with pytest.raises(CassetteError, match=rf"line {index + 1}: the run cannot be read: {told}"):
        Cassette.open(path)
    rows = with_value(rows_of(worked), "runs", 0, "settings_json", settings)
    file = write_sealed(tmp_path / "x.afrun", Parts(rows, b"", {}, ()))
    with pytest.raises(CassetteError, match=rf"x\.afrun cannot be used: 'rows': runs .*: {told}"):
        read_sealed(file)


# --- a sealed file ---------------------------------------------------------------------------------------------------


def with_value(rows: Rows, table: str, number: int, column: str, value: Any) -> Rows:
    """The rows with something else in one column; of what is hashed, with the hash of that."""
    row = dict(rows[table][number])
    if value is ...:
        row.pop(column)
    else:
        row[column] = dumped(value) if column.endswith("_json") and value is not None else value
    if {"content", "sha256"} <= row.keys() and isinstance(row["content"], str) and column == "content":
        row["sha256"] = sha256(row["content"])
    return replace(rows, tables={**rows.tables, table: (*rows[table][:number], row, *rows[table][number + 1 :])})


def places(rows: Rows) -> Iterator[tuple[str, int, str, Place]]:
    """Where something stands, each kind of place once: table, number of the row, column, and the field of its JSON."""
    seen: set[tuple[Any, ...]] = set()
    for table, found in rows.tables.items():
        for number, row in enumerate(found):
            for column, there in row.items():
                is_json = column.endswith("_json") and there is not None
                for at in [(), *fields(orjson.loads(there))] if is_json else [()]:
                    names = tuple(part for part in at if isinstance(part, str))
                    if (kind := (table, row.get("event_type"), column, len(at), names)) not in seen:
                        seen.add(kind)
                        yield table, number, column, at


def odd_rows(rows: Rows) -> Iterator[Rows]:
    """The rows with something else in each column of each table in turn, and in each field of the JSON in it."""
    for shape, (table, number, column, at) in enumerate(places(rows)):
        for new in odd(2, shape):
            if at:
                value = replaced(orjson.loads(rows[table][number][column]), at, new)
                yield with_value(rows, table, number, column, value)
            elif new is not ENDLESS:
                yield with_value(rows, table, number, column, new)


def test_whatever_a_field_of_a_sealed_run_holds_it_is_read_or_refused(worked: Worked, tmp_path: Path) -> None:
    """Each column in turn, and each field of the JSON in it, is something else: all can be read then, or it is told."""
    rows, path, outcomes = rows_of(worked), tmp_path / "odd.db", {"read": 0, "refused": 0}
    for changed in odd_rows(rows):
        path.unlink(missing_ok=True)
        try:
            make_store(path, changed)
        except CassetteError:
            outcomes["refused"] += 1
            continue
        with closing(connect(path, read_only=True)) as db:
            for run in load_branch(db, changed.run_id):
                Player(run, SystemClock(), audits=True)
                changes(run.manifest, MANIFEST, {"lead_agent"})
        outcomes["read"] += 1
    assert min(outcomes.values()) > 100


def test_nothing_of_a_wrong_file_comes_into_a_store(worked: Worked, tmp_path: Path) -> None:
    """Neither opening nor importing such a file changes anything anywhere."""
    with af.Workbench(model=ScriptedModel([]), interactive=False, data_dir=tmp_path / "mine") as wb:
        store = tmp_path / "mine" / "store.db"
        before = contents(store)
        for column, value in (("settings_json", {"fork": "x"}), ("manifest_json", {"agents": 1}), ("question", 1)):
            rows = with_value(rows_of(worked), "runs", 1, column, value)
            file = tmp_path / "x.afrun"
            with suppress(TypeError):  # of what cannot even be sealed
                write_sealed(file, Parts(rows, b"", {}, ()), replace=True)
            for use in (af.open_run, wb.import_run):
                with pytest.raises(CassetteError, match=r"x\.afrun cannot be used: 'rows': runs"):
                    use(file)
        assert contents(store) == before


# --- too much of it --------------------------------------------------------------------------------------------------


MANY = b"[" + b",".join([b"1"] * 10_000_000) + b"]"
DEEP = b"[" * 32_000_000
ROOM_MB = 512
"""For a file, its members and copies of the largest: the lists in it would take three times as much."""


def with_member(found: dict[str, bytes], name: str, data: bytes) -> bytes:
    found = {**found, name: data}
    return zipped({**found, "manifest.json": manifest_of(found)})


def too_much(worked: Worked, folder: Path, value: bytes) -> list[Path]:
    """Files with this value in each kind of place."""
    sealed = members(write_sealed(folder / "whole.afrun", Parts(rows_of(worked), b"", {}, ())))
    event = sealed["rows/events.jsonl"].split(b"\n")[0]
    written = json.dumps('{"question": ' + value.decode() + "}").encode()
    kinds = {
        "metrics.json": b'{"tool_calls": ' + value + b"}\n",
        "sources.json": value,
        "rows/runs.jsonl": b'{"run_id": ' + value + b"}\n",
        "rows/events.jsonl": event.replace(json.dumps(json.loads(event)["data_json"]).encode(), written) + b"\n",
    }
    made = []
    for name, data in kinds.items():
        made.append(folder / f"{name.replace('/', '-')}.afrun")
        made[-1].write_bytes(with_member(sealed, name, data))
    lines = a_cassette()
    for begins, name in (
        (b'{"text"', b"is"),
        (b'{"run"', b"settings"),
        (b'{"turn"', b"prompt"),
        (b'{"timing"', b"run"),
    ):
        index = next(n for n, line in enumerate(lines) if line.startswith(begins))
        told = json.loads(lines[index]) | {name.decode(): "value"}
        made.append(folder / f"{index}.jsonl")
        made[-1].write_bytes(resealed(lines, index, dumped(told).encode().replace(b'"value"', value, 1)))
    return made


@pytest.mark.skipif(sys.platform != "linux", reason="Memory is measured and limited as Linux does it.")
@pytest.mark.parametrize("value", [MANY, DEEP], ids=["many", "deep"])
def test_one_enormous_value_is_refused_at_once(worked: Worked, tmp_path: Path, value: bytes) -> None:
    """Ten million numbers and 32 MB of brackets are told, in little time and memory, wherever in a file they stand."""
    files = too_much(worked, tmp_path, value)
    script = str(Path(__file__).with_name("too_much.py"))
    done = subprocess.run(
        [sys.executable, script, str(ROOM_MB), *map(str, files)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    for path, one in zip(files, told, strict=True):
        assert str(path) in one["error"]
        assert one["seconds"] < 3
