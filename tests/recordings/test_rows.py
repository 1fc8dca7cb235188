"""Rows of a run out of one store and into another."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from recordings.conftest import Worked
from recordings.worked import CITED, SECRET, bench, masked, opened, plain, taken

from artifactflow_nb.errors import CassetteError, Conflict, NotFound
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recordings.pieces import Piece, pack, unpack
from artifactflow_nb.recordings.row_import import import_rows
from artifactflow_nb.recordings.row_masks import mask_json, mask_rows
from artifactflow_nb.recordings.rows import Row, Rows
from artifactflow_nb.recordings.scratch import empty_store
from artifactflow_nb.recordings.sealing import export_rows
from artifactflow_nb.store.database import Database, connect

LOST = {"sources", "sections"}


def rows_of(worked: Worked, run_id: str | None = None, mask: Callable[[str], str] = plain) -> Rows:
    return taken(worked.store, run_id or worked.second, mask).rows


def without_sources(rows: Rows) -> Rows:
    return replace(rows, tables={name: () if name in LOST else found for name, found in rows.tables.items()})


def changed(rows: Rows, table: str, n: int = 0, **values: Any) -> Rows:
    """The rows with other values in one row; `...` takes a column away."""
    row = {name: value for name, value in {**rows[table][n], **values}.items() if value is not ...}
    tables = {**rows.tables, table: (*rows[table][:n], row, *rows[table][n + 1 :])}
    return replace(rows, tables=tables)


def contents(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    with closing(connect(path, read_only=True)) as db:
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: sorted(map(tuple, db.execute(f"SELECT * FROM {name}")), key=repr)  # noqa: S608 - names of the schema
                for name in names}  # fmt: skip


@pytest.fixture
async def other(tmp_path: Path) -> Any:
    """The store of another workbench, empty."""
    database = Database(tmp_path / "other" / "store.db")
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def empty() -> Iterator[sqlite3.Connection]:
    with empty_store() as db:
        yield db


# --- what goes along ------------------------------------------------------------------------------------------------


def test_a_run_takes_along_what_it_rests_on_and_nothing_else(worked: Worked) -> None:
    """Of the tree only the branch of the run, with the runs before it; nothing of siblings and other conversations."""
    rows = rows_of(worked)
    assert [row["content"] for row in rows["messages"]] == ["Ask: one", "Ask: two"]
    assert {row["run_id"] for row in rows["runs"]} == {worked.first, worked.second}
    for table in ("llm_calls", "tool_calls", "events"):
        assert {row["run_id"] for row in rows[table]} == {worked.first, worked.second}
    versions = [(row["artifact_id"], row["version"]) for row in rows["artifact_versions"]]
    assert versions == [("rAskone", 1), ("rAskone", 2), ("rAsktwo", 1), ("rAsktwo", 2)]
    assert len(rows["approvals"]) == 2
    assert [row["anchor"] for row in rows["sections"]] == ["letters"]
    assert rows.run["question"] == "Ask: two"
    assert "Answered" in rows.message["response"]


def test_every_text_of_a_prompt_goes_along_once(worked: Worked) -> None:
    """A prompt can be put together again from the file alone."""
    rows = rows_of(worked)
    texts = {row["sha256"] for row in rows["texts"]}
    named = {key for row in rows["llm_calls"] for _, key, *_ in orjson.loads(row["request_json"])}
    assert named <= texts
    assert len(texts) == len(rows["texts"])


def test_a_run_that_has_not_ended_stays(worked: Worked) -> None:
    """A run that waits cannot be exported: what it will say is not known yet."""
    with bench(worked.store.parent) as wb:
        waiting = wb.ask("Ask: later").wait().run_id
    with opened(worked.store) as db, pytest.raises(Conflict, match=f"{waiting} is waiting"):
        export_rows(db, waiting, plain)
    with opened(worked.store) as db, pytest.raises(NotFound, match="no run 'run-no'"):
        export_rows(db, "run-no", plain)


def test_a_failed_run_goes_along_too(tmp_path: Path) -> None:
    """A run that failed has an error instead of an answer."""
    with bench(tmp_path / "data", model=ScriptedModel([""])) as wb:
        failed = wb.ask("Fail.").wait()
        assert failed.status == "failed"
    rows = taken(tmp_path / "data" / "store.db", failed.run_id).rows
    assert (rows.run["status"], rows.message["response"]) == ("failed", None)


# --- into another store ---------------------------------------------------------------------------------------------


async def test_rows_come_back_as_they_went(worked: Worked, other: Database, tmp_path: Path) -> None:
    """Exported again from where they were imported, the rows are the same, but for sources and standing decisions."""
    rows = rows_of(worked)
    new = await other.write(lambda db: import_rows(db, rows))
    assert new == sum(len(found) for name, found in rows.tables.items() if name not in LOST)
    with opened(other.path) as db:
        again = export_rows(db, worked.second, plain)
    decided = [{**row, "scope": "run" if row["scope"] == "conversation" else row["scope"]} for row in rows["approvals"]]
    assert again == replace(without_sources(rows), tables={**without_sources(rows).tables, "approvals": tuple(decided)})


async def test_rows_that_are_there_are_left_alone(worked: Worked, other: Database) -> None:
    """Importing twice, or into the store that they come from, adds nothing and changes nothing."""
    rows = rows_of(worked)
    await other.write(lambda db: import_rows(db, rows))
    before = contents(other.path)
    assert await other.write(lambda db: import_rows(db, rows)) == 0
    assert contents(other.path) == before
    home = Database(worked.store)
    await home.open()
    assert await home.write(lambda db: import_rows(db, rows)) == 0
    await home.close()


async def test_two_branches_meet_again(worked: Worked, other: Database) -> None:
    """A second run of the same conversation comes to the first, and the active branch stays as it was."""
    await other.write(lambda db: import_rows(db, rows_of(worked)))
    assert await other.write(lambda db: import_rows(db, rows_of(worked, worked.beside))) > 0
    found = contents(other.path)
    assert len(found["runs"]) == 3
    assert len(found["conversations"]) == 1
    active = rows_of(worked).message["message_id"]
    assert active in found["conversations"][0]


async def test_other_content_under_the_same_id_is_a_conflict(worked: Worked, other: Database) -> None:
    """What differs is named, and nothing is written, not even what is new."""
    rows = rows_of(worked, worked.first)
    await other.write(lambda db: import_rows(db, rows))
    before = contents(other.path)
    more = changed(rows_of(worked), "messages", 0, content="Ask: something else")
    with pytest.raises(Conflict, match=f"messages {rows.message['message_id']} .*Nothing was imported"):
        await other.write(lambda db: import_rows(db, more))
    assert contents(other.path) == before


async def test_an_id_that_is_taken_elsewhere_is_a_conflict(worked: Worked, other: Database) -> None:
    """A thread that another run has is refused as a whole."""
    rows = rows_of(worked, worked.first)
    await other.write(lambda db: import_rows(db, rows))
    twin = json.loads(json.dumps(rows_of(worked, worked.beside).tables))
    twin["runs"][-1]["thread_id"] = rows.run["thread_id"]
    twin = Rows(worked.beside, rows.schema, {name: tuple(found) for name, found in twin.items()})
    before = contents(other.path)
    with pytest.raises(Conflict, match=f"runs {worked.beside}.*UNIQUE constraint failed: runs.thread_id"):
        await other.write(lambda db: import_rows(db, twin))
    assert contents(other.path) == before


async def test_what_was_allowed_elsewhere_is_not_allowed_here(worked: Worked, tmp_path: Path) -> None:
    """A decision for the whole conversation does not decide what is asked after an import."""
    rows = rows_of(worked, worked.first)
    assert {row["scope"] for row in rows["approvals"]} == {"conversation"}
    (tmp_path / "mine").mkdir()
    database = Database(tmp_path / "mine" / "store.db")
    await database.open()
    await database.write(lambda db: import_rows(db, rows))
    await database.close()
    with bench(tmp_path / "mine") as wb:
        assert wb.ask("Ask: two", conversation_id=rows.run["conversation_id"]).wait().status == "waiting"


async def test_the_index_of_local_sources_stays_the_stores_own(worked: Worked, other: Database) -> None:
    """A file cannot put texts among the sources that are searched here."""
    await other.write(lambda db: import_rows(db, rows_of(worked)))
    assert not contents(other.path)["sources"]


def test_a_store_for_the_rows_alone_has_them_all(worked: Worked, empty: sqlite3.Connection) -> None:
    """Where nothing else is, sources and decisions come in as they were."""
    rows = rows_of(worked)
    import_rows(empty, rows, alone=True)
    assert [row["uri"] for row in empty.execute("SELECT * FROM sources")] == [row["uri"] for row in rows["sources"]]
    assert "conversation" in {row["scope"] for row in empty.execute("SELECT * FROM approvals")}


# --- secrets --------------------------------------------------------------------------------------------------------


def test_no_text_leaves_without_the_mask(worked: Worked) -> None:
    """Neither as it is nor as JSON writes it is a secret in any row, and no other text is changed."""
    there, gone = rows_of(worked), rows_of(worked, mask=masked)
    written = json.dumps(SECRET)[1:-1], json.dumps(SECRET, ensure_ascii=False)[1:-1], SECRET
    assert any(form in str(there.tables) for form in written)
    assert not any(form in str(gone.tables) for form in written)
    assert "[secret]" in gone.message["response"]
    assert gone["messages"][0]["content"] == there["messages"][0]["content"]
    assert all("[secret]" in row["content"] for row in gone["artifact_versions"])


def test_a_mask_that_finds_nothing_changes_nothing(worked: Worked) -> None:
    """Masking keeps each byte that it has no reason to change, and masking twice is masking once."""
    rows = rows_of(worked)
    assert mask_rows(rows, plain) == rows
    gone = mask_rows(rows, masked)
    assert mask_rows(gone, masked) == gone


def test_hashes_are_those_of_masked_texts(worked: Worked, empty: sqlite3.Connection) -> None:
    """Prompts name masked texts by their own hashes: nobody can try out secrets against a hash."""
    there, gone = rows_of(worked), rows_of(worked, mask=masked)
    import_rows(empty, gone, alone=True)
    secret = {row["sha256"] for row in there["texts"] if SECRET in row["content"]}
    assert secret
    assert not any(key in str(gone.tables) for key in secret)
    asked = [(old, new) for old, new in zip(there["llm_calls"], gone["llm_calls"], strict=True)]
    assert all((old["request_json"] == new["request_json"]) == (old["request_hash"] == new["request_hash"])
               for old, new in asked)  # fmt: skip
    assert any(old["request_hash"] != new["request_hash"] for old, new in asked)


@pytest.mark.parametrize("text", ['{"a":"x"}', '{"a\\"b":["key",1.50,null],"key":"k\\u00e9y key"}', '"key"', "[]"])
def test_strings_inside_of_json_are_masked(text: str) -> None:
    """The form of the JSON stays; keys and values are masked as they read, not as they are written."""
    found = mask_json(text, lambda said: said.replace("key", "[s]"))
    assert orjson.loads(found) == orjson.loads(text.replace("key", "[s]"))
    assert mask_json(text, plain) == text


def test_a_value_whose_name_is_secret_is_masked_in_json() -> None:
    """As in a cassette, whatever the value is; in a list, or with another name, it is not."""
    text = '{"password": "of-a-param", "n":{"api_key":"x-y-z-1","key" : 5}, "list":["password","abcd"], "other":"x-y"}'
    assert mask_json(text, plain) == text.replace("of-a-param", "[secret]").replace("x-y-z-1", "[secret]")


@pytest.mark.parametrize("secret", ["one t", "e t", "two", "one two three", "x"])
def test_masked_text_arrives_as_the_text_did(worked: Worked, secret: str) -> None:
    """The pieces of a reply are as many, at the same times, and say the masked reply, wherever the secret was cut."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    pieces = [Piece("answer", "", text, at, n) for n, text in enumerate(["one ", "two ", "", "three"])]
    pieces.append(Piece("call", "send", f"{{{secret}}}", at, 9))
    texts = {"answer": "one two three", "reasoning": ""}
    rows = rows_of(worked)
    row = {"content": texts["answer"], "reasoning": "", "started_at": rows["llm_calls"][0]["started_at"]}
    packed = orjson.dumps(pack(pieces, at, texts)).decode()
    us = (at - datetime(1970, 1, 1, tzinfo=UTC)).days * 86_400_000_000
    rows = changed(rows, "llm_calls", 0, **{**row, "pieces_json": packed, "started_at": us})
    call = mask_rows(rows, lambda text: text.replace(secret, "[secret]"))["llm_calls"][0]
    found = unpack(orjson.loads(call["pieces_json"]), at, {"answer": call["content"], "reasoning": ""})
    assert "".join(piece.text for piece in found if piece.kind == "answer") == texts["answer"].replace(
        secret, "[secret]"
    )
    assert [(piece.kind, piece.seq) for piece in found] == [(piece.kind, piece.seq) for piece in pieces]
    assert found[-1].text == "{[secret]}"


# --- rows that cannot be --------------------------------------------------------------------------------------------


def _doubled(rows: Rows) -> Rows:
    return replace(rows, tables={**rows.tables, "events": (*rows["events"], rows["events"][0])})


def as_event(rows: Rows, kind: str, data: str) -> Rows:
    return changed(rows, "events", 1, event_type=kind, data_json=data)


def _endless(rows: Rows) -> Rows:
    return replace(rows, tables={**rows.tables, "events": rows["events"][:5]})


def _first(rows: Rows) -> str:
    return str(rows["messages"][0]["message_id"])


BAD: dict[str, tuple[Callable[[Rows], Rows], str]] = {
    "a newer schema": (lambda rows: replace(rows, schema=99), "schema 99; 6 to .* Update artifactflow-nb"),
    "an older schema": (lambda rows: replace(rows, schema=5), "schema 5; 6 to .* are known"),
    "a table more": (lambda rows: replace(rows, tables={**rows.tables, "passages": ()}), "The tables are .*passages"),
    "a table less": (lambda rows: replace(rows, tables={"runs": rows["runs"]}), "are runs; they must be .*plan_jobs"),
    "a column that is none": (lambda rows: changed(rows, "runs", evil="x"), "runs .*: there is no column 'evil'"),
    "a column of the machine": (lambda rows: changed(rows, "sources", mtime_ns=1), "no column 'mtime_ns'"),
    "a column less": (lambda rows: changed(rows, "runs", question=...), "question is missing"),
    "a key less": (lambda rows: changed(rows, "runs", run_id=None), "run_id is missing"),
    "a number as text": (lambda rows: changed(rows, "runs", started_at="1"), "started_at is '1', which is no INTEGER"),
    "a text as number": (lambda rows: changed(rows, "runs", question=1), "question is '1', which is no TEXT"),
    "a truth as number": (lambda rows: changed(rows, "tool_calls", success=True), "success is 'True'"),
    "a fraction as number": (lambda rows: changed(rows, "runs", started_at=1.5), "started_at is '1.5'"),
    "a time beyond time": (lambda rows: changed(rows, "runs", started_at=2**60), "started_at is"),
    "an endless number": (lambda rows: changed(rows, "llm_calls", cost_usd=float("inf")), "cost_usd is 'inf'"),
    "a list as text": (lambda rows: changed(rows, "runs", question=["x"]), "question is"),
    "broken JSON": (lambda rows: changed(rows, "runs", settings_json="{"), "settings_json is no JSON dict"),
    "other JSON": (lambda rows: changed(rows, "events", data_json="[]"), "data_json is no JSON dict"),
    "deep JSON": (lambda rows: changed(rows, "events", data_json='{"a":' * 500 + "1" + "}" * 500), "is no JSON dict"),
    "another text than its hash": (lambda rows: changed(rows, "texts", content="Obey."), "not the one that its hash"),
    "another artifact than its hash": (lambda rows: changed(rows, "artifact_versions", content="x"), "its hash names"),
    "a run that goes on": (lambda rows: changed(rows, "runs", 1, status="waiting"), "status is 'waiting'"),
    "a run with an owner": (lambda rows: changed(rows, "runs", owner="eng-1"), "it has an owner"),
    "a run without an end": (lambda rows: changed(rows, "runs", completed_at=None), "or no end"),
    "events without an end": (_endless, "its events do not say that it is completed"),
    "an event that is none": (lambda rows: changed(rows, "events", event_type="run_code"), "no event 'run_code'"),
    "an event without its call": (lambda rows: as_event(rows, "tool_start", "{}"), "its data has no tool_call_id"),
    "an event of other types": (lambda rows: as_event(rows, "metadata", '{"question":[]}'), r"question in its data is"),
    "an event of no number": (lambda rows: as_event(rows, "retry", '{"wait_ms":"1"}'), "wait_ms in its data is '1'"),
    "an event of no tokens": (lambda rows: as_event(rows, "retry", '{"token_usage":{"input_tokens":[]}}'), "no number"),
    "a thread twice": (lambda rows: changed(rows, "runs", thread_id=rows["runs"][1]["thread_id"]), "UNIQUE constraint"),
    "a call without a result": (lambda rows: changed(rows, "tool_calls", metadata_json=None), "does not say with what"),
    "a call of no status": (lambda rows: changed(rows, "tool_calls", status="x"), "there is no status 'x'"),
    "a row twice": (_doubled, "it is there twice"),
    "a run elsewhere": (lambda rows: changed(rows, "events", run_id="run-mine"), "run_id names what is not in"),
    "a version of a run elsewhere": (
        lambda rows: changed(rows, "artifact_versions", run_id="run-mine"), "run_id names what is not in the file",
    ),
    "a message elsewhere": (lambda rows: changed(rows, "messages", 0, parent_id="msg-mine"), "not in the file"),
    "a circle": (lambda rows: changed(rows, "messages", 0, parent_id=_first(rows)), "does not follow the message"),
    "a prompt without its text": (
        lambda rows: replace(rows, tables={**rows.tables, "texts": rows["texts"][1:]}), "a text of its prompt is not",
    ),
    "a prompt of other things": (lambda rows: changed(rows, "llm_calls", request_json="[1]"), "what is no message"),
    "a prompt by other names": (lambda rows: changed(rows, "llm_calls", request_json='[["user","x"]]'), "no hash"),
    "another run": (lambda rows: replace(rows, run_id="run-mine"), "'run-mine' is not in the file"),
    "another active message": (lambda rows: changed(rows, "conversations", active_message_id=_first(rows)), "active"),
    "no conversation": (lambda rows: replace(rows, tables={**rows.tables, "conversations": ()}), "not in the file"),
    "too many pieces": (
        lambda rows: changed(rows, "llm_calls", pieces_json='{"kinds":[["answer","",1]],"chars":"7*99999999999",'
                             '"ms":"0","seq":"1"}'), "does not say how the text arrived",
    ),
    "pieces that undo each other": (
        lambda rows: changed(rows, "llm_calls", pieces_json='{"kinds":[["answer","",9999999999],'
                             '["answer","",-9999999999]],"chars":"","ms":"","seq":""}'), "how the text arrived",
    ),
    "pieces of another text": (
        lambda rows: changed(rows, "llm_calls", pieces_json='{"kinds":[["answer","",1]],"chars":"1","ms":"0",'
                             '"seq":"1"}'),
        "does not say how the text arrived",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_rows_that_cannot_be_are_refused(worked: Worked, empty: sqlite3.Connection, kind: str) -> None:
    """What is wrong is named with its row, and nothing of the file gets into the store."""
    change, match = BAD[kind]
    bad = change(rows_of(worked))
    empty.execute("BEGIN")
    with pytest.raises(CassetteError, match=match):
        import_rows(empty, bad, alone=True)
    empty.execute("ROLLBACK")
    assert empty.execute("SELECT count(*) FROM conversations").fetchone()[0] == 0


def test_columns_that_came_later_may_be_missing(worked: Worked, empty: sqlite3.Connection) -> None:
    """What a file does not say takes the value that a store gives it when it is brought up to date."""
    rows = rows_of(worked)
    older: list[Row] = [
        {name: value for name, value in row.items() if name != "cassette"} for row in rows["tool_calls"]
    ]
    assert import_rows(empty, replace(rows, tables={**rows.tables, "tool_calls": tuple(older)}), alone=True) > 0
    assert {row["cassette"] for row in empty.execute("SELECT cassette FROM tool_calls")} == {"off"}


def test_what_is_told_after_the_end_goes_along(worked: Worked, empty: sqlite3.Connection) -> None:
    """A run that is cancelled may tell a decision after its end."""
    rows = rows_of(worked)
    last = max((row for row in rows["events"] if row["run_id"] == rows.run_id), key=lambda row: int(row["seq"]))
    late = {**last, "seq": last["seq"] + 1, "event_type": "permission_result", "data_json": '{"id":"req-1"}'}
    late_rows = replace(rows, tables={**rows.tables, "events": (*rows["events"], late)})
    assert import_rows(empty, late_rows, alone=True) == sum(map(len, late_rows.tables.values()))


def test_what_was_read_is_what_is_cited(worked: Worked) -> None:
    """A source goes along once, as the agents saw it, however often it was read."""
    (source,) = taken(worked.store, worked.second).sources
    assert (source.address, source.title, source.uri.split(":")[0]) == (CITED, "Letters", "file")
    assert source.text == "# Letters\n\nA letter is sent once."
