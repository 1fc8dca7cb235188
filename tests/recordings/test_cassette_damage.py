"""A cassette that was damaged or changed is refused with its path, the line and what to do; hostile ones at once."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recordings.generated import LONG, a_call, a_run, a_turn
from spent import within

from artifactflow_nb.errors import CassetteError
from artifactflow_nb.recordings.cassette import Cassette
from artifactflow_nb.recordings.cassette_file import CassetteFile, accept_cassette, cassette_bytes
from artifactflow_nb.recordings.counted import counted, each, n_counted

CONTENT = cassette_bytes([a_run(), a_run("2", "And then?", "msg-1", response=f"Then: {LONG}")])
LINES = CONTENT.split(b"\n")[:-1]
RUN, TURN, TIMING, END = 5, 6, 8, 9
"""Where lines of the first run stand, from 0."""


def written(path: Path, lines: list[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def resummed(lines: list[bytes]) -> list[bytes]:
    """The lines with the hash of the first run made anew, as malice would."""
    end = json.loads(lines[END])
    end["sha256"] = hashlib.sha256(b"".join(line + b"\n" for line in lines[RUN:END])).hexdigest()
    return [*lines[:END], json.dumps(end).encode(), *lines[END + 1 :]]


def moved(first: int, second: int) -> list[bytes]:
    lines = list(LINES)
    lines[first], lines[second] = lines[second], lines[first]
    return lines


def replaced(index: int, old: bytes, new: bytes) -> list[bytes]:
    assert old in LINES[index]
    return [line.replace(old, new, 1) if at == index else line for at, line in enumerate(LINES)]


ADVICE = r"(?s).*(Restore|restore|Take one side|Delete|install|Choose|\.gitattributes)"
CASES: dict[str, tuple[list[bytes], str]] = {
    "not a cassette": ([b"# Notes", b"text"], "line 1: this is no cassette"),
    "an object of something else": ([b'{"a": 1}'], "line 1: this is no cassette"),
    "a version that is none": ([b'{"cassette": "1"}', *LINES[1:]], "line 1: this is no cassette"),
    "newer": (
        [b'{"cassette": 3, "package": "artifactflow-nb 9.0"}', b"?"],
        "version 3, written by artifactflow-nb 9.0",
    ),
    "no last line": (LINES[:-1], "line 16: the file ends before this line: it is truncated"),
    "half a run": (LINES[:TIMING], "line 9: the file ends before"),
    "turns reordered": (moved(TURN, TURN + 1), "lines 6 to 9 of run 1 .*edited or moved"),
    "turn and timing reordered": (moved(TURN + 1, TIMING), "line 9: a line `turn` stands where a line `end` is"),
    "texts reordered": (moved(1, 2), "line 3: texts are not sorted"),
    "runs reordered": ([*LINES[:RUN], *LINES[END + 1 : -1], *LINES[RUN : END + 1], LINES[-1]], "in the place of run 1"),
    "a run taken out": ([*LINES[:RUN], *LINES[END + 1 :]], "in the place of run 1"),
    "the last run taken out": ([*LINES[: END + 1], LINES[-1]], "line 11: it tells of 2 runs and 4 texts"),
    "the same run twice": ([*LINES[: END + 1], *LINES[RUN : END + 1], LINES[-1]], "is there twice: .*line 6"),
    "a line edited": (replaced(TURN, b"lead_agent", b"mean_agent"), r"lines 6 to 9 of run 1 \(run-1, 'Why\?'\)"),
    "a text edited": (replaced(1, LONG[:9].encode(), b"What is f"), "line 2: the text does not have the hash"),
    "a text missing": ([LINES[0], *LINES[2:]], "line 9: run 1 .*uses the text [0-9a-f]{16}, which is missing"),
    "no object": ([*LINES[:TURN], b"[1, 2]", *LINES[TURN + 1 :]], "line 7: it is no JSON object"),
    "no JSON": ([*LINES[:RUN], b"{", *LINES[RUN + 1 :]], "line 6: it is no JSON object"),
    "laid out anew": ([*LINES[:RUN], b" " + LINES[RUN], *LINES[RUN + 1 :]], "not written as a line `last` is"),
    "a conflict": ([*LINES[:RUN], b"<<<<<<< HEAD", *LINES[RUN:]], "line 6: a conflict that git left"),
    "a conflict at the top": ([b"<<<<<<< HEAD", *LINES], "line 1: a conflict that git left"),
    "ends of lines": ([line + b"\r" for line in LINES], r"line 1: the line ends in \\r\\n"),
    "more behind": ([*LINES, LINES[0]], "line 17: the file goes on after its last line"),
    "another end": (replaced(END, b"run-1", b"run-7"), "line 10: it ends the run 'run-7', and 'run-1' began in line 6"),
    "empty": ([], "is empty and so no cassette"),
}


@pytest.mark.parametrize("case", CASES)
def test_damage_is_told_by_its_line(tmp_path: Path, case: str) -> None:
    """Reading says what is wrong, where, and what to do; recording says the same and leaves the file as it is."""
    lines, told = CASES[case]
    path = written(tmp_path / "x.jsonl", lines)
    before = path.read_bytes()
    for use in (Cassette.open, CassetteFile):
        with pytest.raises(CassetteError, match=told) as caught:
            use(path)
        assert str(caught.value).startswith(str(path))
        assert re.match(ADVICE, str(caught.value))
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.jsonl"]


def test_every_cut_is_found(tmp_path: Path) -> None:
    """Wherever a file is cut off, in a line or between two, it cannot be opened."""
    path = tmp_path / "x.jsonl"
    for size in range(0, len(CONTENT), 7):
        path.write_bytes(CONTENT[:size])
        with pytest.raises(CassetteError):
            Cassette.open(path)


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    """A byte that is another one is found, unless it is in the name of the package, which nothing rests on."""
    path = tmp_path / "x.jsonl"
    for at in range(len(LINES[0]) + 1, len(CONTENT), 11):
        path.write_bytes(CONTENT[:at] + bytes([CONTENT[at] ^ 1]) + CONTENT[at + 1 :])
        with pytest.raises(CassetteError):
            Cassette.open(path)


# --- edits that are meant --------------------------------------------------------------------------------------------


def test_an_edit_that_is_meant_is_accepted(tmp_path: Path) -> None:
    """What was changed is told, hashes and references are made anew, and the values are the edited ones."""
    lines = replaced(1, LONG[:9].encode(), b"What is f")
    lines[TURN] = lines[TURN].replace(b"lead_agent", b"kind_agent")
    path = written(tmp_path / "x.jsonl", lines)
    looked = accept_cassette(path, write=False)
    assert path.read_bytes() == b"".join(line + b"\n" for line in lines)
    accepted = accept_cassette(path)
    assert (accepted.edits, looked.written, accepted.written) == (looked.edits, False, True)
    assert [edit.split(":")[0] for edit in accepted.edits] == ["line 2", "line 10"]
    run = Cassette.open(path).run("run-1")
    assert run.turns[0].agent == "kind_agent"
    assert accept_cassette(path).edits == ()
    assert path.read_bytes() == cassette_bytes([run, Cassette.open(path).run("run-2")])


def test_what_continues_an_edited_question_still_does(tmp_path: Path) -> None:
    """The key of a run follows its question, and those after it follow the key."""
    path = written(tmp_path / "x.jsonl", replaced(RUN, b'"Why?"', b'"Who?"'))
    accept_cassette(path)
    assert path.read_bytes() == cassette_bytes(
        [a_run(question="Who?"), a_run("2", "And then?", "msg-1", response=f"Then: {LONG}")]
    )


def test_an_edit_that_cannot_be_read_is_not_accepted(tmp_path: Path) -> None:
    """A value that does not fit its field is an error with its line, and the file stays."""
    path = written(tmp_path / "x.jsonl", replaced(TURN, b'"step": 1', b'"step": "one"'))
    with pytest.raises(CassetteError, match="line 7: it cannot be read: step is 'one', which does not fit"):
        accept_cassette(path)
    assert b'"step": "one"' in path.read_bytes()


# --- hostile ones ----------------------------------------------------------------------------------------------------


def edited(index: int, change: Callable[[Any], Any]) -> list[bytes]:
    value = json.loads(LINES[index])
    changed = json.dumps(change(value) or value, ensure_ascii=False).encode()
    return resummed([*LINES[:index], changed, *LINES[index + 1 :]])


def pieces(**changes: Any) -> Callable[[Any], Any]:
    return lambda value: value["turns"][0]["pieces"].update(changes)


def nested(depth: int) -> bytes:
    return LINES[TURN].replace(b'{"query": "managers"}', b'{"query": ' + b"[" * depth + b"]" * depth + b"}")


HOSTILE: dict[str, list[bytes]] = {
    "many of one number": edited(TIMING, pieces(chars="7*99999999999")),
    "many that fit to each other": edited(
        TIMING, pieces(kinds=[["answer", "", 10**9]], chars="0*999999999", ms="0*999999999", seq="0*999999999")
    ),
    "a number of many digits": edited(TIMING, pieces(ms="9" * 100_000)),
    "a time beyond all": edited(TIMING, pieces(ms="999999999999999 0")),
    "pieces below nothing": edited(TIMING, pieces(chars="-7 14")),
    "pieces of another kind": edited(TIMING, pieces(kinds=[["laughter", "", 2]])),
    "pieces too long": edited(TIMING, pieces(chars="7 7")),
    "pieces that are none": edited(TIMING, lambda value: value["turns"][0].update(pieces=[1])),
    "a long order": edited(TIMING, lambda value: value.update(order={"lanes": ["run"], "seq": "0*999999999"})),
    "an order from behind": edited(TIMING, lambda value: value.update(order={"lanes": ["run"], "seq": "-1"})),
    "an order of nothing": edited(TIMING, lambda value: value.update(order={"lanes": ["run"], "seq": "1"})),
    "a sequence of others": edited(TIMING, lambda value: value.update(sequence="0 0")),
    "a start that is none": edited(TIMING, lambda value: value.update(timing="yesterday")),
    "a naive start": edited(TIMING, lambda value: value.update(timing="2026-01-01")),
    "too few turns": edited(TIMING, lambda value: value.update(turns=[])),
    "a huge time": edited(TIMING, lambda value: value["run"].update(ends=[1e300])),
    "deep": resummed([*LINES[:TURN], nested(800), *LINES[TURN + 1 :]]),
    "very deep": resummed([*LINES[:TURN], nested(100_000), *LINES[TURN + 1 :]]),
    "an unknown field": edited(TURN, lambda value: value.update(run_this="rm")),
    "a missing field": edited(TURN, lambda value: value.pop("agent") and None),
    "a truth for a number": edited(TURN, lambda value: value.update(step=True)),
    "a decision that cannot be": edited(
        TURN, lambda value: value["calls"][0].update(ask={"kind": "t", "preview": "", "decision": {"approved": 1}})
    ),
    "a reference to nothing": edited(TURN, lambda value: value.update(agent={"$": "zz"})),
    "a reference that is none": edited(TURN, lambda value: value.update(agent={"$": 1})),
    "a lone surrogate": resummed([*LINES[:TURN], LINES[TURN].replace(b"lead_agent", b"\\ud800"), *LINES[TURN + 1 :]]),
    "no UTF-8": resummed([*LINES[:TURN], LINES[TURN].replace(b"lead_agent", b"\xff\xfe"), *LINES[TURN + 1 :]]),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_runs_are_refused_at_once(tmp_path: Path, case: str) -> None:
    """A run whose hash fits and whose values do not is refused with its line, before memory or time is spent on it."""
    path = written(tmp_path / "x.jsonl", HOSTILE[case])
    for attempt in within(0.5):
        with attempt, pytest.raises(CassetteError, match=r"x\.jsonl, line \d+: .*Restore it"):
            Cassette.open(path).run("run-1")


def test_a_cassette_of_brackets_is_refused_at_once(tmp_path: Path) -> None:
    """Neither a line of 20 MB nor many lines of nothing take long."""
    for content in (b"[" * 20_000_000, b'{"cassette": 1}\n' + b"[" * 20_000_000 + b"\n", b"\n" * 5_000_000):
        (tmp_path / "x.jsonl").write_bytes(content)
        for attempt in within(1.0):
            with attempt, pytest.raises(CassetteError):
                Cassette.open(tmp_path / "x.jsonl")


def test_counted_lists_are_short_and_exact() -> None:
    """What repeats is counted; a list is measured before it is unrolled."""
    for values in ([], [7], [-1, -1, 2, 2, 2, -1], list(range(50))):
        text = counted(values)
        assert list(each(text)) == values
        assert n_counted(text, 100) == len(values)
    assert counted([16] * 311 + [7]) == "16*311 7"
    for text in ("7*", "*7", "1  2", " 1", "1 ", "a", "1*2*3", "7*0x1", None, "1.5", "٣"):
        with pytest.raises(ValueError, match="damaged"):
            n_counted(text, 100)


def test_a_turn_with_very_many_pieces_is_not_recorded() -> None:
    """What would be refused in reading is refused in writing."""
    turn = a_turn(calls=(a_call(),))
    run = a_run(turns=[turn], order=("run",) * 1_000_001)
    with pytest.raises(CassetteError, match="more than 1,000,000 events"):
        cassette_bytes([run])


def test_many_runs_that_share_a_long_text_open_at_once(tmp_path: Path) -> None:
    """Neither the number of runs nor a text that each of them names makes opening slow."""
    recorded = [a_run(str(number), "x" * 100_000, turns=[], response=None) for number in range(3000)]
    path = tmp_path / "x.jsonl"
    path.write_bytes(cassette_bytes(recorded))
    for attempt in within(1.5):
        with attempt:
            assert len(Cassette.open(path).runs) == 3000


def test_edits_of_nothing_are_told(tmp_path: Path) -> None:
    """A path that leads nowhere is an error, and nothing is made there."""
    with pytest.raises(CassetteError, match="There is no cassette"):
        accept_cassette(tmp_path / "folder" / "x.jsonl")
    assert list(tmp_path.iterdir()) == []
