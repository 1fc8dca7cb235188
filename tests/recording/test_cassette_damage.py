"""A cassette that is damaged, edited or built to do harm is refused with its path and advice."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from support.cpu_time import within
from support.sample_recordings import LONG, recording
from support.sealed_files import cassette_with_new_hash

import artifactflow_nb as af
from artifactflow_nb.core.pieces import pack
from artifactflow_nb.errors import CassetteError
from artifactflow_nb.recording.cassette import Cassette, CassetteWriter, cassette_bytes, one_recording
from artifactflow_nb.store.schema import from_microseconds

CONTENT = one_recording(*recording())
LINES = CONTENT.split(b"\n")[:-1]


def place_of(table: str) -> int:
    """The index of the first line of a table."""
    return next(n for n, line in enumerate(LINES) if line.startswith(f'{{"{table}":'.encode()))


def written(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def use(path: Path) -> None:
    """Open a cassette and read all recordings."""
    cassette = Cassette.open(path)
    for head in cassette.heads:
        cassette.rows(head)


# --- damage ----------------------------------------------------------------------------------------------------------

TURN = place_of("llm_calls")
CASES: dict[str, tuple[list[bytes], str]] = {
    "another file": ([b"# Notes", b"text"], "is not a cassette"),
    "an object of something else": ([b'{"a": 1}'], "is not a cassette"),
    "an empty file": ([], "is not a cassette"),
    "a conflict at the top": ([b"<<<<<<< HEAD", *LINES], "is not a cassette"),
    "an odd version": ([LINES[0].replace(b":1}", b':"1"}'), *LINES[1:]], "has the version '1', and this release"),
    "another version": ([LINES[0].replace(b":1}", b":2}"), b"?"], "reads version 1 only. Delete the file. Record it"),
    "no last line": (LINES[:-1], "the end is missing"),
    "half a file": (LINES[:TURN], "the end is missing"),
    "lines in another order": ([*LINES[:2], LINES[3], LINES[2], *LINES[4:]], "a line was changed"),
    "a line less": ([*LINES[:TURN], *LINES[TURN + 1 :]], "a line was changed"),
    "an edited line": ([line.replace(b"lead_agent", b"mean_agent") for line in LINES], "a line was changed"),
    "an edited text": ([line.replace(LONG[:9].encode(), b"What is f") for line in LINES], "a line was changed"),
    "a conflict": ([*LINES[:TURN], b"<<<<<<< HEAD", *LINES[TURN:]], "a line was changed"),
    "other line ends": ([line + b"\r" for line in LINES], "a line was changed"),
    "more behind the end": ([*LINES, LINES[0]], "a line was changed"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_damaged_cassette_is_refused_with_advice(tmp_path: Path, case: str) -> None:
    """Recording refuses the file too and leaves the file unchanged."""
    lines, problem = CASES[case]
    path = written(tmp_path / "x.jsonl", lines)
    before = path.read_bytes()
    for user in (Cassette.open, CassetteWriter):
        with pytest.raises(CassetteError, match=problem) as caught:
            user(path)
        assert str(path) in str(caught.value)
        assert re.search("Restore|Pass a file|Update|Delete the file", str(caught.value))
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.jsonl"]


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for size in [*range(0, len(CONTENT), 31), *range(len(CONTENT) - 100, len(CONTENT))]:
        path.write_bytes(CONTENT[:size])
        with pytest.raises(CassetteError):
            Cassette.open(path)


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    for at in [*range(0, len(CONTENT), 31), *range(100), *range(len(CONTENT) - 100, len(CONTENT))]:
        path.write_bytes(CONTENT[:at] + bytes([CONTENT[at] ^ 1]) + CONTENT[at + 1 :])
        with pytest.raises(CassetteError):
            Cassette.open(path)


USES: dict[str, Callable[[Path], object]] = {
    "replay": lambda path: af.Workbench(replay=path, interactive=False),
    "record": lambda path: af.Workbench(record=path, data_dir=path.parent / "data", interactive=False),
    "auto": lambda path: af.Workbench(record=path, mode="auto", data_dir=path.parent / "data", interactive=False),
    "accept": af.accept_cassette,
}


@pytest.mark.parametrize("mode", USES)
def test_cassette_of_another_version_is_refused_with_advice(tmp_path: Path, mode: str) -> None:
    """Every use raises an error with the advice to delete the file and to record again."""
    path = tmp_path / "old.jsonl"
    path.write_bytes(CONTENT.replace(b'"version":1}', b'"version":2}', 1))
    before = path.read_bytes()
    with pytest.raises(
        CassetteError,
        match=r"has the version 2, .* reads version 1 only\. Delete the file\. Record it again(?s:.*)mode=.record",
    ):
        USES[mode](path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["", "missing/x.jsonl", "x\0.jsonl", "."])
def test_path_without_a_cassette_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(CassetteError, match=r"cassette"):
        Cassette.open(tmp_path / name)


# --- edits that are meant --------------------------------------------------------------------------------------------


def test_intended_edit_is_accepted(tmp_path: Path) -> None:
    """The values are the edited values, and accepting twice changes nothing."""
    lines = [line.replace(b"lead_agent", b"kind_agent") if n == TURN else line for n, line in enumerate(LINES)]
    path = written(tmp_path / "x.jsonl", lines)
    af.accept_cassette(str(path))
    accepted = path.read_bytes()
    cassette = Cassette.open(path)
    assert cassette.rows(cassette.heads[0])["llm_calls"][0]["agent_name"] == "kind_agent"
    assert accepted.split(b"\n")[:-2] == lines[:-1]
    af.accept_cassette(path)
    assert path.read_bytes() == accepted


def test_edit_by_a_program_that_drops_the_last_line_break_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(CONTENT.rstrip(b"\n"))
    af.accept_cassette(path)
    assert path.read_bytes() == CONTENT


def test_edit_of_a_long_text_is_accepted(tmp_path: Path) -> None:
    """Rows name a long text by its hash, and the hash changes with the text."""
    path = tmp_path / "x.jsonl"
    edited = [line.replace(LONG[:9].encode(), b"What is f") if line.startswith(b'{"text"') else line for line in LINES]
    path.write_bytes(b"\n".join([*edited, b""]))
    af.accept_cassette(path)
    texts = [line for line in path.read_bytes().split(b"\n") if line.startswith(b'{"text"')]
    assert any(b"What is f" in line for line in texts)
    assert not any(LONG[:9].encode() in line for line in texts)
    for head in (cassette := Cassette.open(path)).heads:
        assert cassette.rows(head)["runs"]


UNUSABLE: dict[str, tuple[list[bytes], str]] = {
    "a value that does not fit": (
        [line.replace(b'"step":1', b'"step":"one"') if n == TURN else line for n, line in enumerate(LINES)],
        "llm_calls .*: step is 'one'",
    ),
    "no JSON": ([*LINES[:TURN], b"{", *LINES[TURN + 1 :]], f"Line {TURN + 1} of the cassette"),
    "a conflict": ([*LINES[:TURN], b"<<<<<<< HEAD", *LINES[TURN:]], f"Line {TURN + 1} of the cassette"),
    "no last line": (LINES[:-1], "its last line has no hash"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_edit_that_cannot_be_used_is_not_accepted(tmp_path: Path, case: str) -> None:
    """The file stays unchanged."""
    lines, problem = UNUSABLE[case]
    path = written(tmp_path / "x.jsonl", lines)
    before = path.read_bytes()
    with pytest.raises(CassetteError, match=problem):
        af.accept_cassette(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.jsonl"]


def test_accepting_a_missing_file_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match="There is no cassette"):
        af.accept_cassette(tmp_path / "folder" / "x.jsonl")
    assert list(tmp_path.iterdir()) == []


# --- hostile values with a hash that fits ----------------------------------------------------------------------------


def edited(table: str, change: Callable[[dict[str, Any]], Any]) -> list[bytes]:
    """The lines with a change in the first row of a table."""
    at = place_of(table)
    row = json.loads(LINES[at])
    change(row[table])
    return [json.dumps(row).encode() if n == at else line for n, line in enumerate(LINES)]


def pieces(**changes: Any) -> list[bytes]:
    """The lines with other values in the record of the pieces in which the first reply arrived."""
    call = recording()[1]["llm_calls"][0]
    texts = {"answer": call["content"], "reasoning": call["reasoning"]}
    packed = pack(
        [("answer", "", call["content"], from_microseconds(call["started_at"]), 3)],
        from_microseconds(call["started_at"]),
        texts,
    )
    assert packed is not None
    return edited("llm_calls", lambda row: row.update(pieces_json={**packed, **changes}))


def nested(depth: int) -> list[bytes]:
    deep = b'"args_json":{"x":' + b"[" * depth + b"]" * depth + b","
    return [line.replace(b'"args_json":{', deep, 1) for line in LINES]


N = len(recording()[1]["llm_calls"][0]["content"])
HOSTILE: dict[str, list[bytes]] = {
    "many of one number": pieces(chars="7*99999999999"),
    "many that fit each other": pieces(
        kinds=[["answer", "", 10**9]], chars="0*9999999 " * 100, ms="0*9999999", seq="0*9999999"
    ),
    "kinds that undo each other": pieces(kinds=[["answer", "", 10**10], ["answer", "", -(10**10)]], chars=""),
    "a number of many digits": pieces(ms="9" * 100_000),
    "a time beyond all times": pieces(ms="999999999999999"),
    "pieces below nothing": pieces(kinds=[["answer", "", 2]], chars=f"-7 {N + 7}", ms="0 0", seq="1 1", said=[]),
    "pieces of another kind": pieces(kinds=[["laughter", "", 1]]),
    "pieces too long": pieces(chars=f"{N + 1}"),
    "pieces that are none": edited("llm_calls", lambda row: row.update(pieces_json=[1])),
    "a text that is a list": pieces(said={"answer": ["x"] * N}),
    "a tool that is a number": pieces(kinds=[["answer", 5, 1]]),
    "a time beyond time": edited("runs", lambda row: row.update(started_at=2**60)),
    "a huge time": edited("runs", lambda row: row.update(completed_at=1e300)),
    "deep": nested(120),
    "deeper": nested(800),
    "very deep": nested(100_000),
    "an unknown column": edited("tool_calls", lambda row: row.update(run_this="rm")),
    "a column that is SQL": edited("tool_calls", lambda row: row.update({"x) VALUES (1); --": "x"})),
    "a missing column": edited("tool_calls", lambda row: row.pop("agent_name")),
    "a truth for a number": edited("tool_calls", lambda row: row.update(step=True)),
    "a reference to nothing": edited("tool_calls", lambda row: row.update(result={"$text": "zz"})),
    "a reference that is none": edited("tool_calls", lambda row: row.update(result={"$text": 1})),
    "a reference that is a list": edited("tool_calls", lambda row: row.update(result={"$text": [1]})),
    "a literal that is none": edited("tool_calls", lambda row: row.update(result={"$literal": 1})),
    "a prompt of other things": edited("llm_calls", lambda row: row.update(request_json=[1])),
    "a prompt of names": edited("llm_calls", lambda row: row.update(request_json=[["user", "x"]])),
    "a prompt that rests on another": edited("llm_calls", lambda row: row.update(request_base="call-1")),
    "a row of no table": [*LINES[:2], b'{"passages":{}}', *LINES[2:]],
    "a row before its recording": [LINES[0], LINES[2], *LINES[1:]],
    "the same recording twice": [*LINES[:-1], LINES[1], LINES[-1]],
    "a recording without its fields": [LINES[0], b'{"recording":{}}', *LINES[2:]],
    "a recording of other types": [LINES[0], LINES[1].replace(b'"flow":"research"', b'"flow":[]'), *LINES[2:]],
    "a recording under another question": [LINES[0], LINES[1].replace(b'"Why?"', b'"Who?"'), *LINES[2:]],
    "a recording with a further field": [LINES[0], LINES[1].replace(b'"flow"', b'"schema":9,"flow"'), *LINES[2:]],
    "a recording of another run": [LINES[0], LINES[1].replace(b'"run_id":"run-', b'"run_id":"run-0'), *LINES[2:]],
    "a lone surrogate": [line.replace(b'"Report"', b'"\\ud800"') for line in LINES],
    "no UTF-8": [line.replace(b'"Report"', b'"\xff\xfe"') for line in LINES],
}


@pytest.mark.timed
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_row_is_refused_at_once(tmp_path: Path, case: str) -> None:
    """The hash fits; the error names the file, before memory or time is spent on the value."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(cassette_with_new_hash(HOSTILE[case]))
    assert path.read_bytes() != CONTENT
    for attempt in within(0.5):
        with attempt, pytest.raises(CassetteError, match=r"x\.jsonl"):
            use(path)


@pytest.mark.timed
def test_cassette_of_brackets_or_empty_lines_is_refused_at_once(tmp_path: Path) -> None:
    first = LINES[0]
    contents = [b"[" * 20_000_000, first + b"\n" + b"[" * 20_000_000 + b"\n", b"\n" * 5_000_000]
    contents.append(cassette_with_new_hash([first, b"[" * 20_000_000, b""]))
    for content in contents:
        (tmp_path / "x.jsonl").write_bytes(content)
        for attempt in within(1.0):
            with attempt, pytest.raises(CassetteError):
                Cassette.open(tmp_path / "x.jsonl")


@pytest.mark.timed
def test_text_that_is_referenced_very_often_is_refused_at_once(tmp_path: Path) -> None:
    """A file of twenty megabytes would come to 200 gigabytes."""
    head, rows = recording()
    long = "x" * 1_000_000
    digest = hashlib.sha256(long.encode()).hexdigest()
    lines = [orjson.dumps({table: row}) for table, found in rows.tables.items() for row in found]
    lines += [orjson.dumps({"runs": {"settings_json": [{"$text": digest}] * 10_000}})] * 20
    path = tmp_path / "x.jsonl"
    path.write_bytes(cassette_bytes({head: lines}, {digest: long}))
    for attempt in within(2.0):
        with attempt, pytest.raises(CassetteError, match="recording would have 200,000,000,000 characters"):
            use(path)


@pytest.mark.timed
def test_many_recordings_of_one_long_text_open_at_once(tmp_path: Path) -> None:
    """Many recordings that all name one long text do not make opening slow."""
    head, _ = recording()
    long = "x" * 100_000
    digest = hashlib.sha256(long.encode()).hexdigest()
    lines = [orjson.dumps({"messages": {"content": {"$text": digest}}})]
    path = tmp_path / "x.jsonl"
    heads = [replace(head, run_id=f"run-{n}", key=f"key-{n}") for n in range(3000)]
    path.write_bytes(cassette_bytes(dict.fromkeys(heads, lines), {digest: long}))
    for attempt in within(1.5):
        with attempt:
            assert len(Cassette.open(path).heads) == 3000
