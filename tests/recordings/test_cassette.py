"""A cassette gives back what was recorded, the same bytes for the same runs, and one line of noise a run."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings.generated import LONG, START, a_call, a_run, a_turn, runs

from artifactflow_nb.errors import CassetteError, NotFound
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.recordings.cassette import Cassette
from artifactflow_nb.recordings.cassette_file import CassetteFile, cassette_bytes
from artifactflow_nb.recordings.cassette_lines import read_run, run_lines
from artifactflow_nb.recordings.identity import ROOT, Place, run_key
from artifactflow_nb.recordings.values import RecordedRun

PLACE = Place("ask-1", ROOT, 1)


def back(run: RecordedRun) -> RecordedRun:
    texts: dict[str, str] = {}
    lines = run_lines(run, 1, PLACE, texts)
    assert all(line.count(b"\n") == 1 and len(line.decode().splitlines()) == 1 for line in lines)
    return read_run(lines[:-1], texts.__getitem__)


def record(path: Path, *recorded: RecordedRun) -> Path:
    with CassetteFile(path) as file:
        for run in recorded:
            file.add(run)
    return path


@given(runs())
@settings(max_examples=100, deadline=None)
def test_every_value_comes_back_as_it_was(run: RecordedRun) -> None:
    """A run is equal to what its lines are read as, whatever its texts and values are, and each line is one line."""
    again = back(run)
    assert again == run
    assert [list(call.args) for turn in again.turns for call in turn.calls] == [
        list(call.args) for turn in run.turns for call in turn.calls
    ]


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_whole_files_come_back(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Runs in a file are read one by one, equal to what was recorded, and the same runs give the same bytes."""
    recorded = [data.draw(runs(f"run-{number}")) for number in range(3)]
    content = cassette_bytes(recorded)
    assert cassette_bytes(recorded) == content
    path = tmp_path_factory.getbasetemp() / "whole.jsonl"
    path.write_bytes(content)
    cassette = Cassette.open(path)
    assert [head.run_id for head in cassette.runs] == ["run-0", "run-1", "run-2"]
    assert [cassette.run(run.run_id) for run in recorded] == recorded
    assert [head.n_turns for head in cassette.runs] == [len(run.turns) for run in recorded]


def test_times_finer_than_a_millisecond_come_back() -> None:
    """A start with microseconds, and times with some since then, are exact."""
    run = a_run(started_at=START + timedelta(microseconds=7), ends=(START + timedelta(days=400, microseconds=1),))
    assert back(run) == run


def test_what_json_cannot_hold_is_refused_with_its_field() -> None:
    """A value that would come back as another one is not written."""
    for value in (float("nan"), 2**64, {1: "one"}, {"a": {3}}, "\ud800"):
        with pytest.raises(ValueError, match=r"settings|surrogates"):
            back(a_run(settings={"x": value}))
    with pytest.raises(ValueError, match="same place"):
        back(a_run(turns=(a_turn(), a_turn())))


def test_a_file_reads_as_it_is_described(tmp_path: Path) -> None:
    """The lines stand in their order, with their keys in theirs; long texts stand once, sorted by their hashes."""
    path = record(tmp_path / "x.jsonl", a_run(), a_run("2", "And then?", "msg-1"))
    content = path.read_bytes()
    lines = [json.loads(line) for line in content.decode().split("\n")[:-1]]
    kinds = [next(iter(line)) for line in lines]
    assert kinds == ["cassette", *["text"] * 3, *["run", "turn", "turn", "timing", "end"] * 2, "end"]
    assert lines[0] == {"cassette": 2, "package": "artifactflow-nb 0.1.0"}
    keys = [line["text"] for line in lines if "text" in line]
    assert keys == sorted(keys)
    assert content.count(json.dumps(LONG)[1:-1].encode()) == 3
    assert lines[-1] == {"end": "cassette", "runs": 2, "texts": 3}
    assert [(line["run"], line["after"]) for line in lines if "run" in line and "after" in line] == [
        (1, "root"),
        (2, Cassette.open(path).runs[0].run_key),
    ]
    assert str(tmp_path).encode() not in content


def test_turns_are_sorted_and_come_back_in_the_order_of_the_run() -> None:
    """The file sorts by path in natural order, step and attempt; the run's own order is kept beside the times."""
    places = [("main", 10), ("main/10.1", 1), ("main/2.1", 2), ("main", 2), ("main/2.1", 1)]
    calls = {"main": (a_call("call_subagent"),)}
    run = a_run(turns=[a_turn(path, step, calls=calls.get(path, ())) for path, step in places])
    lines = [json.loads(line) for line in run_lines(run, 1, PLACE, {})]
    written = [(line["turn"], line["step"]) for line in lines if "turn" in line]
    assert written == [("main", 2), ("main", 10), ("main/2.1", 1), ("main/2.1", 2), ("main/10.1", 1)]
    assert back(run) == run


def test_a_recording_of_the_same_content_differs_in_one_line_and_its_hash() -> None:
    """Other times, durations and pieces leave the lines of the turns as they are."""
    before = a_run()
    later = timedelta(hours=3)
    turns = [
        replace(
            turn,
            started_at=turn.started_at + later,
            completed_at=turn.completed_at + later,
            duration_ms=1.0,
            pieces=tuple(piece._replace(at=piece.at + later * 2) for piece in turn.pieces),
            reply=replace(turn.reply, ttft_ms=7.0) if turn.reply else None,
            calls=tuple(replace(call, called_at=START + later, duration_ms=8.0) for call in turn.calls),
        )
        for turn in before.turns
    ]
    after = replace(before, started_at=START + later, ends=(START + later,), turns=tuple(turns), order=("run", "main"))
    lines = [run_lines(run, 1, PLACE, {}) for run in (before, after)]
    differing = [next(iter(json.loads(one))) for one, other in zip(*lines, strict=True) if one != other]
    assert differing == ["timing", "end"]


def test_the_same_content_gives_the_same_bytes_in_other_processes(tmp_path: Path) -> None:
    """Neither the seed of hashes, nor the locale, nor the order of settings, nor the folder changes a byte."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from recordings.generated import a_run; "
        "from artifactflow_nb.recordings.cassette_file import cassette_bytes; "
        "names = sys.argv[2].split(); "
        "run = a_run(settings={n: n for n in names}, manifest={n: n for n in names}); "
        "sys.stdout.buffer.write(cassette_bytes([run]))"
    )
    found = set()
    for seed, locale, order in (("1", "C", "a b c"), ("2", "C.UTF-8", "c b a"), ("3", "tr_TR.UTF-8", "b a c")):
        env = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": locale}
        command = [sys.executable, "-c", script, str(Path(__file__).parents[1]), order]
        found.add(subprocess.run(command, env=env, capture_output=True, check=True, cwd=tmp_path).stdout)
    assert len(found) == 1
    assert found != {b""}


def test_heads_are_there_without_reading_the_turns(tmp_path: Path) -> None:
    """A head says what was asked and what became of it; long questions too."""
    path = record(tmp_path / "x.jsonl", a_run(question=LONG, status="failed"))
    (head,) = Cassette.open(path).runs
    assert (head.question, head.status, head.flow, head.n_turns) == (LONG, "failed", "research", 2)
    assert (head.run_id, head.message_id, head.conversation_id) == ("run-1", "msg-1", "conv-1")
    assert Cassette.open(path).find(head.run_key) == head
    assert Cassette.open(path).find("ask-0") is None
    with pytest.raises(NotFound, match="Its runs: run-1"):
        Cassette.open(path).run("run-2")


def test_an_opened_cassette_stays_what_it_was(tmp_path: Path) -> None:
    """What another process records later does not change what was opened."""
    path = record(tmp_path / "x.jsonl", a_run())
    cassette = Cassette.open(path)
    record(path, a_run("9", turns=[a_turn(calls=(a_call(result=ToolResult(success=False, error="No.")),))]))
    assert cassette.run("run-1") == a_run()
    assert [head.run_id for head in Cassette.open(path).runs] == ["run-9"]


# --- which run is which ----------------------------------------------------------------------------------------------


def test_the_key_of_a_run_says_what_was_asked_after_what_and_how() -> None:
    """Ids and times have no part in it; question, flow, model, budget, parent and ordinal have."""
    first = a_run()
    again = a_run("7", started_at=START + timedelta(days=1), settings={"budget": {"tokens": 1000}, "sources": ["x"]})
    assert run_key(first) == run_key(again)
    others = [
        a_run(question="Who?"),
        a_run(flow="plan"),
        a_run(settings={"model": "m", "budget": {"tokens": 1000}}),
        a_run(settings={"budget": {"tokens": 2000}}),
        a_run(parent="msg-0"),
    ]
    keys = {run_key(first), run_key(first, [a_run("0")]), *(run_key(run) for run in others)}
    assert len(keys) == 7


def test_a_run_that_continues_another_has_its_key_and_not_its_id() -> None:
    """The same questions in the same order have the same keys, whatever their messages are called."""
    one = run_key(a_run("b", "And?", "msg-a"), [a_run("a")])
    other = run_key(a_run("y", "And?", "msg-x"), [a_run("x")])
    assert one == other != run_key(a_run("y", "And?", "msg-x"), [a_run("x", "What?")])


@pytest.mark.parametrize("name", ["", "missing/x.jsonl", "x\0.jsonl", "."])
def test_what_is_no_file_is_told(tmp_path: Path, name: str) -> None:
    """A path without a cassette is an error that names it."""
    with pytest.raises(CassetteError, match=r"cassette"):
        Cassette.open(tmp_path / name)
