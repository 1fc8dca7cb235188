"""Plugins of users: the origin of plugins, the owners of rows in their tables, and refused plugins."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path, PurePath
from typing import Any

import pytest
from conftest import OpenWorkbench

import artifactflow_nb as af
from artifactflow_nb.engine.cited_sources import REFERENCE_EXPORTS
from artifactflow_nb.engine.plugin import Plugin
from artifactflow_nb.sources.formats.sections import DocumentSection, ExtractedDocument, Extractor
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import insert
from artifactflow_nb.store.frames import TEXT, Frame, stored_columns
from artifactflow_nb.store.schema import Table

pytestmark = pytest.mark.usefixtures("own_plugins")

NOTES = Table("notes", "tool_call_id TEXT NOT NULL, text TEXT NOT NULL", key="tool_call_id")
TOPICS = Table("topics", "name TEXT NOT NULL", key="name", owner="conversation")
WORDS = Table("words", "word TEXT NOT NULL", key="word", owner="store")


@af.tool(permission="auto", idempotent=True)
async def take_note(ctx: af.ToolContext, text: str) -> str:
    """Keep a note."""

    def work(db: sqlite3.Connection) -> None:
        insert(db, "notes", {"tool_call_id": ctx.tool_call_id, "run_id": ctx.run_id, "text": text}, or_ignore=True)
        insert(db, "topics", {"name": text, "conversation_id": ctx.conversation_id}, or_ignore=True)
        insert(db, "words", {"word": text.split(maxsplit=1)[0]}, or_ignore=True)

    await ctx.service(Database).write(work)
    return "It is noted."


def notes_plugin(**changes: Any) -> Plugin:
    """A plugin whose tool writes a row of each kind."""
    frame = Frame("notes", stored_columns("what", TEXT, "n", text="The note."), "main.notes AS n", "n.rowid")
    fields: dict[str, Any] = {
        "tools": (take_note,),
        "tables": (NOTES, TOPICS, WORDS),
        "frames": (frame,),
        "services": lambda engine: {Database: engine.database},
    }
    return Plugin("notes", **{**fields, **changes})


def note(text: str) -> af.ToolCall:
    return af.ToolCall("take_note", {"text": text})


def count(wb: af.Workbench) -> dict[str, int]:
    """The number of rows of each table."""
    return {name: len(wb.query(f"SELECT * FROM main.{name}")) for name in ("notes", "topics", "words")}  # noqa: S608


def test_accessor_is_an_attribute_of_the_workbench(workbench: OpenWorkbench) -> None:
    """The accessor gets the workbench, and has the name of the plugin."""
    plugin = notes_plugin(accessor=lambda wb: [wb, "notes"])
    wb = workbench(["Done."], plugins=[plugin])
    assert wb.notes == [wb, "notes"]


def read_table(data: bytes, path: PurePath) -> ExtractedDocument:
    """A document of one section, with metadata that has the token of a service."""
    return ExtractedDocument(path.stem, (DocumentSection("all", "Rows", data.decode()),), metadata=(("", META),))


META = {"owner": "Lake office", "token": "sk-proj-Ab3dE6gH9jK2mN5pQ8sT1vW4"}


def test_reader_makes_sources_of_another_kind_of_file(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The store keeps the metadata that the reader describes, without known secrets."""
    reader = Extractor(
        "table", "text/csv", 1_000, read_table, describe=lambda found: tuple((a, {**m, "n": 1}) for a, m in found)
    )
    (tmp_path / "tides").mkdir()
    (tmp_path / "tides" / "may.csv").write_text("day,height\n1,spring tide", encoding="utf-8")
    wb = workbench(plugins=[Plugin("tables", readers={".csv": reader})], api_key=META["token"])
    assert wb.sources.add(tmp_path / "tides").source_ids == ("tides/may.csv",)
    assert wb.sources.search_df("spring tide")["address"].tolist() == ["local:tides/may.csv#all"]
    (stored,) = wb.query("SELECT metadata_json FROM main.source_metadata")["metadata_json"]
    assert json.loads(stored)["owner"] == "Lake office"
    assert json.loads(stored)["n"] == 1
    assert META["token"] not in stored


def test_file_whose_metadata_cannot_be_described_is_read(workbench: OpenWorkbench, tmp_path: Path) -> None:
    (tmp_path / "tides").mkdir()
    (tmp_path / "tides" / "may.csv").write_text("1,spring tide", encoding="utf-8")
    reader = Extractor("table", "text/csv", 1_000, read_table, describe=lambda found: found[1:][0])
    wb = workbench(plugins=[Plugin("tables", readers={".csv": reader})])
    assert wb.sources.add(tmp_path / "tides").added == 1
    assert wb.query("SELECT * FROM main.source_metadata").empty


def test_export_gets_the_texts_that_cite(workbench: OpenWorkbench, own_plugins: Callable[[], None]) -> None:
    """Without a plugin for the form, the error says so."""
    wb = workbench(["Tides turn [1]."], plugins=[Plugin("lists", exports={"BibTeX": lambda cited: cited.texts[0]})])
    run = wb.ask("When?").wait()
    assert run.to_bibtex() == "Tides turn [1]."
    own_plugins()
    REFERENCE_EXPORTS.clear()
    with pytest.raises(af.errors.UsageError, match="No plugin writes references in BibTeX"):
        run.to_bibtex()


def test_rows_are_deleted_with_their_owner(workbench: OpenWorkbench) -> None:
    """Rows of a run and of a conversation are deleted with the conversation; rows of the store stay."""
    wb = workbench([note("Tides end in May."), "Done."], plugins=[notes_plugin()])
    run = wb.ask("When?").wait()
    assert count(wb) == {"notes": 1, "topics": 1, "words": 1}
    sizes = wb.store.storage_df().set_index("kind")
    assert sizes.loc["notes", "conversation_id"] == sizes.loc["topics", "conversation_id"] == run.conversation_id
    wb.conversation(run).delete()
    assert count(wb) == {"notes": 0, "topics": 0, "words": 1}


def test_fork_has_the_rows_of_the_copied_calls(workbench: OpenWorkbench) -> None:
    """The call before the step is copied with its row, under a new id; the later call is made again."""
    turns = [note("One."), note("Two."), "Done.", note("Three."), "Done again."]
    wb = workbench(turns, plugins=[notes_plugin()])
    run = wb.ask("When?").wait()
    fork = run.fork(3).wait()  # the second turn
    rows = wb.query("SELECT text, run_id FROM main.notes ORDER BY rowid")
    assert rows["text"].tolist() == ["One.", "Two.", "One.", "Three."]
    assert rows["run_id"].tolist() == [run.run_id] * 2 + [fork.run_id] * 2


def test_sealed_run_is_imported_into_a_store_with_the_plugin(workbench: OpenWorkbench, tmp_path: Path) -> None:
    wb = workbench([note("Tides end in May."), "Done."], plugins=[notes_plugin()])
    path = wb.ask("When?").wait().seal(tmp_path / "run.afrun")
    other = workbench(plugins=[notes_plugin()], data_dir=tmp_path / "other")
    other.store.import_run(path)
    assert other.query("SELECT text FROM notes")["text"].tolist() == ["Tides end in May."]


def test_other_version_of_a_table_is_refused(workbench: OpenWorkbench, own_plugins: Callable[[], None]) -> None:
    """The store keeps the rows: nothing is converted."""
    workbench(plugins=[notes_plugin()]).close()
    own_plugins()  # as in a new process
    changed = Table("notes", "tool_call_id TEXT NOT NULL, more TEXT", key="tool_call_id", version=2)
    with pytest.raises(af.errors.StoreError, match="version 1 of the table 'notes', and the plugin version 2"):
        workbench(plugins=[notes_plugin(tables=(changed,), frames=())])


def test_used_name_and_other_values_are_refused(workbench: OpenWorkbench) -> None:
    with pytest.raises(af.errors.UsageError, match="cannot have a table 'runs'"):
        workbench(plugins=[Plugin("p", tables=(Table("runs", "a TEXT", key="a"),))])
    with pytest.raises(af.errors.UsageError, match=r"plugins has 7; each must be a Plugin"):
        workbench(plugins=[7])
    with pytest.raises(af.errors.UsageError, match="No package has a plugin 'tides'. Installed: none"):
        workbench(plugins=["tides"])
    with pytest.raises(af.errors.UsageError, match="plugins is 'tides'; pass a list"):
        workbench(plugins="tides")
    with pytest.raises(af.errors.UsageError, match="cannot have a frame 'runs': the package has one"):
        workbench(plugins=[Plugin("p", frames=(Frame("runs", (), "runs", "run_id"),))])
    with pytest.raises(af.errors.UsageError, match="wb.ask exists: give the plugin 'ask' another name"):
        workbench(plugins=[Plugin("ask", accessor=lambda _workbench: 1)])


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (Table("tab", "k TEXT, , x", key="k"), "syntax error"),
        (Table("tab", "k TEXT", key="no_column"), "no_column"),
        (Table("tab", "k TEXT, run_id TEXT", key="k"), "duplicate column name: run_id"),
        (Table("order", "k TEXT", key="k"), "syntax error"),
    ],
)
def test_table_that_sqlite_refuses_is_named_and_harms_no_other_workbench(
    workbench: OpenWorkbench, table: Table, problem: str
) -> None:
    with pytest.raises(af.errors.UsageError, match=f"SQLite refuses the table '{table.name}' of 'p': .*{problem}"):
        workbench(plugins=[Plugin("p", tables=(table,))])
    workbench(plugins=[Plugin("p", tables=(Table("tab", "k TEXT", key="k"),))]).close()
    workbench().close()


def test_installed_plugin_is_used_only_if_it_is_named(
    workbench: OpenWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry point alone changes no workbench."""
    (tmp_path / "tides.py").write_text(
        "from artifactflow_nb.engine.plugin import Plugin\n"
        "from artifactflow_nb.store.schema import Table\n"
        'TIDES = Plugin("tides", tables=(Table("tides", "time TEXT NOT NULL", key="time"),))\n'
    )
    info = tmp_path / "tides-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tides\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[artifactflow_nb.plugins]\ntides = tides:TIDES\n")
    monkeypatch.syspath_prepend(tmp_path)
    tables = "SELECT name FROM sqlite_schema WHERE name = 'tides'"
    for plugins, n_tables in (((), 0), (("tides",), 1)):
        folder = tmp_path / f"data{n_tables}"
        workbench(plugins=plugins, data_dir=folder).close()
        with closing(sqlite3.connect(folder / "store.db")) as db:
            assert len(db.execute(tables).fetchall()) == n_tables
