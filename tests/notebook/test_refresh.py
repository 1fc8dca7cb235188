"""Refreshing a run: changed sources, the statements that rest on the sources, and the new report."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.web_server import Reply, WebServer

import artifactflow_nb as af
from artifactflow_nb.sources.citation_marks import statements_by_address
from artifactflow_nb.sources.excerpt import excerpt, is_excerpt_of

BACKUPS = "local:notes/backups.md#backups"
KEYS = "local:notes/keys.md#keys"
REPORT = f"""# Backups

Backups run every night at two [1]. They are checked once a month [1]. The key is with the steward [2].

## Sources

1. Backups — {BACKUPS}
2. Keys — {KEYS}
"""
READ = af.ToolCall("web_fetch", {"urls": [BACKUPS, KEYS]})
WRITE = af.ToolCall("create_artifact", {"id": "research_report", "title": "Backups", "content": REPORT})
REWRITE = af.ToolCall("rewrite_artifact", {"id": "research_report", "content": REPORT.replace("two", "four")})
CONFIG = {"lead_agent": {"tools": ["all"]}}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "backups.md").write_text("# Backups\n\nBackups run every night at two.\n", encoding="utf-8")
    (folder / "keys.md").write_text("# Keys\n\nThe key is with the steward.\n", encoding="utf-8")
    return folder


@pytest.fixture
def model() -> af.ScriptedModel:
    return af.ScriptedModel([READ, WRITE, "It is written.", REWRITE, "The time has changed."])


@pytest.fixture
def wb(notes: Path, tmp_path: Path, model: af.ScriptedModel) -> Iterator[af.Workbench]:
    with af.Workbench(
        model=model, data_dir=tmp_path / "data", interactive=False, graph_config=CONFIG, approvals="approve"
    ) as workbench:
        workbench.sources.add(notes)
        yield workbench


def test_changed_file_leads_to_a_new_version_of_the_report(
    wb: af.Workbench, notes: Path, model: af.ScriptedModel
) -> None:
    """The statements that cite the file are listed, and a follow-up run on the same branch rewrites the report."""
    run = wb.ask("When do backups run?").wait()
    (notes / "backups.md").write_text("# Backups\n\nBackups run every night at four.\n", encoding="utf-8")
    refreshed = wb.sources.refresh(run)
    (change,) = refreshed.changes
    assert (change.address, change.kind, refreshed.n_unchanged) == (BACKUPS, "changed", 1)
    assert change.statements == ("Backups run every night at two", "They are checked once a month")
    assert "1 source changed, 0 removed, 1 as before; 2 statements to check." in repr(refreshed)
    assert refreshed.follow_up is not None
    report = refreshed.follow_up.wait().artifacts["research_report"]
    assert (report.version, "at four [1]" in report.content) == (2, True)
    assert refreshed.follow_up.conversation_id == run.conversation_id
    question = model.requests[3].messages[-1].content
    assert question.startswith("When do backups run?\n\n<context>")
    assert "  - Backups run every night at two\n" in question
    assert "`research_report`" in question
    assert "steward" not in question
    assert "Backups run every night at two" in refreshed._repr_html_()


def test_unchanged_sources_cause_no_model_call(wb: af.Workbench, notes: Path, model: af.ScriptedModel) -> None:
    """Nothing is asked, and the result says so; a file that was only touched has not changed."""
    run = wb.ask("When do backups run?").wait()
    (notes / "keys.md").touch()
    refreshed = wb.sources.refresh(run.run_id)
    assert (refreshed.changes, refreshed.follow_up, refreshed.n_unchanged) == ((), None, 2)
    assert refreshed.summary == "Nothing has changed: 2 sources as before. No model was called."
    assert len(model.requests) == 3
    assert len(wb.runs_df()) == 1


def test_removed_file_is_a_change_with_its_statements(wb: af.Workbench, notes: Path) -> None:
    """A deleted file is a change of the kind `removed`, with the statements that cite the file."""
    run = wb.ask("When do backups run?").wait()
    (notes / "keys.md").unlink()
    refreshed = wb.sources.refresh(run)
    (change,) = refreshed.changes
    assert (change.address, change.kind, change.statements) == (KEYS, "removed", ("The key is with the steward",))
    assert refreshed.follow_up is not None
    refreshed.follow_up.wait()


def test_missing_folder_is_no_change(wb: af.Workbench, notes: Path) -> None:
    """The contents of a missing folder are unknown, so the question is not asked again."""
    run = wb.ask("When do backups run?").wait()
    notes.rename(notes.with_name("moved"))
    refreshed = wb.sources.refresh(run)
    assert (refreshed.changes, refreshed.follow_up) == ((), None)
    assert {source.reason for source in refreshed.unchecked} == {"is in a folder that does not exist now"}


def test_run_without_sources_has_nothing_to_compare(tmp_path: Path) -> None:
    """An unfinished run is refused; a run that read nothing is not asked again."""
    model = af.ScriptedModel([af.ToolCall("create_artifact", {"id": "a", "title": "A", "content": "A"}), "Done."])
    with af.Workbench(model=model, data_dir=tmp_path / "data", interactive=False, approvals="ask") as wb:
        run = wb.ask("Write.").wait()
        assert wb.sources.refresh(run).summary == "Nothing to compare: the run read no source."
        with pytest.raises(af.errors.NotFound):
            wb.sources.refresh("run-unknown")


def test_source_outside_of_the_index_is_not_reported_as_changed(
    wb: af.Workbench, tmp_path: Path, model: af.ScriptedModel
) -> None:
    """In another store, where the sealed run was imported, the source is listed as not checked."""
    sealed = wb.ask("When do backups run?").wait().seal(tmp_path / "run.afrun")
    with af.Workbench(model=model, data_dir=tmp_path / "other", interactive=False) as other:
        refreshed = other.sources.refresh(other.store.import_run(sealed))
    assert refreshed.changes == ()
    assert [source.address for source in refreshed.unchecked] == [BACKUPS, KEYS]
    assert "wb.sources.add" in refreshed.unchecked[0].reason
    assert "2 could not be checked" in refreshed.summary


def test_pages_are_fetched_again(tmp_path: Path) -> None:
    """A page with another text has changed, a page with status 404 is removed, and a failing page is not checked."""
    replies = dict.fromkeys(("/same", "/new", "/gone", "/broken"), Reply(b"The price is 5."))
    with WebServer({path: lambda request: replies[request.path] for path in replies}) as server:
        urls = [server.url(path) for path in replies]
        model = af.ScriptedModel([af.ToolCall("web_fetch", {"urls": urls}), f"The price is 5 ({urls[1]}).", "It is 6."])
        with af.Workbench(
            model=model, data_dir=tmp_path / "data", interactive=False, approvals="approve", graph_config=CONFIG,
            allowed_hosts=[server.host],
        ) as wb:  # fmt: skip
            run = wb.ask("What is the price?").wait()
            replies["/new"] = Reply(b"The price is 6.")
            replies["/gone"] = Reply(status=404)
            replies["/broken"] = Reply(status=503)
            refreshed = wb.sources.refresh(run)
            assert {change.address: change.kind for change in refreshed.changes} == {
                urls[1]: "changed",
                urls[2]: "removed",
            }
            assert refreshed.changes[0].statements == ("The price is 5",)
            assert [source.address for source in refreshed.unchecked] == [urls[3]]
            assert refreshed.n_unchanged == 1
            assert refreshed.follow_up is not None
            assert refreshed.follow_up.wait().response == "It is 6."
            unchecked = wb.sources.refresh(run, web=False).unchecked
            assert [source.reason for source in unchecked] == ["was not fetched again"] * 4


def test_refresh_is_recorded_and_replayed(wb: af.Workbench, notes: Path, tmp_path: Path) -> None:
    """A replay finds the same change in the files, and plays the follow-up run without a model."""
    wb.close()
    cassette = tmp_path / "refresh.jsonl"
    answers = []
    for mode in ("record", "replay"):
        (notes / "backups.md").write_text("# Backups\n\nBackups run every night at two.\n", encoding="utf-8")
        turns = [READ, WRITE, "It is written.", REWRITE, "The time has changed."] if mode == "record" else []
        options = {mode: cassette, "interactive": False, "graph_config": CONFIG, "approvals": "approve"}
        options |= {"data_dir": tmp_path / "recorded"} if mode == "record" else {}
        with af.Workbench(model=af.ScriptedModel(turns), **options) as session:
            session.sources.add(notes)
            run = session.ask("When do backups run?").wait()
            (notes / "backups.md").write_text("# Backups\n\nBackups run every night at four.\n", encoding="utf-8")
            refreshed = session.sources.refresh(run)
            assert refreshed.follow_up is not None
            answers.append(refreshed.follow_up.wait().artifacts["research_report"].content)
    assert answers[0] == answers[1]
    assert "at four" in answers[0]


def test_follow_up_has_a_budget_and_asks_for_approvals(notes: Path, tmp_path: Path) -> None:
    """The follow-up is an ordinary run: it has the budget passed to `refresh`, and calls wait for the person."""
    turns = [READ, WRITE, "It is written.", af.ToolCall("note", {"text": "x"}), "Noted."]
    with af.Workbench(
        model=af.ScriptedModel(turns), data_dir=tmp_path / "data", interactive=False, graph_config=CONFIG
    ) as wb:

        @wb.tool(permission="confirm")
        def note(ctx: af.ToolContext, text: str) -> str:
            """Note a text."""
            return text

        wb.sources.add(notes)
        run = wb.ask("When do backups run?").wait()
        (notes / "backups.md").unlink()
        follow_up = wb.sources.refresh(run, budget=af.Budget(tokens=90_000)).follow_up
        assert follow_up is not None
        assert follow_up.wait().status == "waiting"
        assert follow_up.settings["budget"]["tokens"] == 90_000
        assert follow_up.approve().wait().response == "Noted."


def test_offline_model_writes_a_new_version(notes: Path, tmp_path: Path) -> None:
    """Without an endpoint the question is answered again from the present files."""
    with af.Workbench(data_dir=tmp_path / "data", interactive=False, approvals="approve") as wb:
        wb.sources.add(notes)
        run = wb.ask("When do backups run?").wait()
        (notes / "backups.md").write_text("# Backups\n\nBackups run every night at four.\n", encoding="utf-8")
        follow_up = wb.sources.refresh(run).follow_up
        assert follow_up is not None
        report = follow_up.wait().artifacts["research_report"]
        assert (report.version, "at four" in report.content, "at two" in report.content) == (2, True, False)


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        (REPORT, {BACKUPS: ["Backups run every night at two", "They are checked once a month"],
                  KEYS: ["The key is with the steward"]}),
        ("> A quoted sentence. [1]\n\n1. B — local:a.md#b", {"local:a.md#b": ["A quoted sentence."]}),
        ("- It is stated here (local:a.md#b).", {"local:a.md#b": ["It is stated here"]}),
        ("Two sources say it [1, 2].\n\n1. A — local:a#a\n2. B — local:b#b",
         {"local:a#a": ["Two sources say it"], "local:b#b": ["Two sources say it"]}),
        ("No mark, no statement.", {}),
    ],
)  # fmt: skip
def test_statements_are_the_sentences_before_marks(text: str, statements: dict[str, list[str]]) -> None:
    """A statement is the sentence that a mark or an address ends; the list of sources states nothing."""
    assert statements_by_address(text) == statements


def test_excerpt_is_compared_by_its_pieces() -> None:
    """A change in a part that was left out does not count; a change in a piece counts."""
    parts = [f"Paragraph {n} about whales." + " word" * 150 for n in range(10)]
    text = "\n\n".join(parts)
    short = excerpt(text, "paragraph 4", 2_000)
    assert is_excerpt_of(short, text)
    assert is_excerpt_of(short, text.replace("Paragraph 9", "Paragraph nine"))
    assert not is_excerpt_of(short, text.replace("Paragraph 4", "Paragraph four"))
    assert not is_excerpt_of("Whole text.", "Whole text. And more.")
