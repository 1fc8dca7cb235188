"""The space of a store: long texts once and compressed, deletion, pruning, measurement and copies."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import artifactflow_nb as af

PAGE = 4096
LONG = ("The fares of the ferry depend on the season and on the length of the car.\n" * 40).strip()


@pytest.fixture
def wb(tmp_path: Path) -> Iterator[af.Workbench]:
    model = af.ScriptedModel(lambda request: f"{request.messages[-1].content} {LONG}")
    with af.Workbench(model=model, data_dir=tmp_path / "data", interactive=False) as opened:
        yield opened


def pages(wb: af.Workbench) -> int:
    """The pages of the store that are in use, without the pages of claims: a plugin adds these."""
    with closing(sqlite3.connect(wb.data_dir / "store.db")) as db:
        return int(db.execute("SELECT count(*) FROM dbstat WHERE name NOT LIKE '%claims%'").fetchone()[0])


def test_research_run_takes_at_most_100_kb_without_its_claims(tmp_path: Path) -> None:
    """The default sources are indexed by the first run; each run fetches texts of 45 to 85 KB."""
    questions = (
        "How do context managers work with exceptions?",
        "How do asyncio timeouts work, and how does one task cancel another?",
        "When should I use a generator instead of a list?",
    )
    with af.Workbench(data_dir=tmp_path, approvals="approve", interactive=False) as wb:
        sizes = []
        for question in questions:
            assert wb.ask(question).wait(60).status == "completed"
            sizes.append(pages(wb))
        shown = wb.query("SELECT tool_name, result, length(stored_text(result)) AS n FROM main.tool_calls")
    fetched = shown[shown["tool_name"] == "web_fetch"]
    assert all(text.startswith("<source") for text in fetched["result"])
    assert (fetched["n"] > 40_000).all()
    assert (sizes[-1] - sizes[0]) * PAGE / (len(questions) - 1) < 100_000


def test_frames_and_queries_show_the_text_of_compressed_columns(wb: af.Workbench) -> None:
    run = wb.ask("What does the ferry cost?").wait()
    frame = wb.events_df(run)
    assert frame["data_json"].str.contains(LONG[:60], regex=False).sum() == 3  # llm_complete, agent_complete, complete
    found = wb.query("SELECT event_type FROM events WHERE data_json LIKE ?", [f"%{LONG[:60]}%"])
    assert set(found["event_type"]) == {"llm_complete", "agent_complete", "complete"}
    assert wb.query("SELECT content FROM main.llm_calls")["content"].tolist() == [run.response]
    assert wb.query("SELECT x'5a00' AS blob")["blob"].tolist() == [b"Z\x00"]
    with closing(sqlite3.connect(wb.data_dir / "store.db")) as db:
        assert {row[0] for row in db.execute("SELECT typeof(content) FROM llm_calls")} == {"blob"}


def test_shared_text_stays_until_its_last_run_is_deleted(tmp_path: Path) -> None:
    """Both runs have the same result, and prompts that contain the result."""

    @af.tool(permission="auto", idempotent=True)
    def fares(_ctx: af.ToolContext) -> str:
        """Read the fares."""
        return LONG

    script = [af.ToolCall("fares", {}), "They depend.", af.ToolCall("fares", {}), "They depend."]
    with af.Workbench(model=af.ScriptedModel(script), data_dir=tmp_path, interactive=False) as wb:
        wb.tool(fares)
        first, second = wb.ask("What are they?").wait(), wb.ask("What are they?").wait()
        texts = "SELECT count(*) FROM main.texts WHERE stored_text(content) LIKE ?"
        assert wb.query(texts, [f"%{LONG}%"]).iat[0, 0] == 2  # the result, and the message that has it
        packed = wb.query(
            "SELECT sum(length(content)) FROM main.texts WHERE stored_text(content) LIKE ?", [f"%{LONG}%"]
        )
        assert packed.iat[0, 0] < 600
        wb.conversation(first).delete()
        assert wb.query(texts, [f"%{LONG}%"]).iat[0, 0] == 2
        assert wb.query("SELECT result FROM main.tool_calls")["result"].tolist() == [LONG]
        assert second.seal(tmp_path / "second.afrun").exists()
        wb.conversation(second).delete()
        assert wb.query("SELECT count(*) FROM main.texts").iat[0, 0] == 0
        assert wb.query("SELECT count(*) FROM main.text_parts").iat[0, 0] == 0


def test_file_shrinks_after_a_deletion(wb: af.Workbench) -> None:
    small = wb.ask("Short?").wait()
    # Compressed texts are small, so many different ones are needed.
    long = wb.ask(" ".join(str(n * n) for n in range(200_000))).wait(30)
    with closing(sqlite3.connect(wb.data_dir / "store.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before = (wb.data_dir / "store.db").stat().st_size
    wb.conversation(long).delete()
    assert (wb.data_dir / "store.db").stat().st_size < before - 1_000_000
    assert LONG in str(small.response)


def test_storage_df_has_the_bytes_of_each_conversation_and_kind(wb: af.Workbench) -> None:
    run = wb.ask("What does the ferry cost?").wait()
    frame = wb.store.storage_df()
    own = frame[frame["conversation_id"] == run.conversation_id].set_index("kind")
    assert {"messages", "runs", "model calls", "events", "texts"} <= set(own.index)
    assert own.at["messages", "n_rows"] == 2  # the conversation and its message
    assert own.at["messages", "n_bytes"] > len(LONG)
    assert (own["title"] == "What does the ferry cost?").all()
    in_file = frame[~frame["kind"].isin(["checkpoints", "write-ahead log"])]
    with closing(sqlite3.connect(wb.data_dir / "store.db")) as db:
        assert in_file["n_bytes"].sum() == db.execute("PRAGMA page_count").fetchone()[0] * PAGE
    assert frame.attrs["schema"] == "artifactflow_nb/storage/1"


def test_prune_deletes_old_conversations_and_seals_their_runs_first(wb: af.Workbench, tmp_path: Path) -> None:
    runs = [wb.ask(f"Question {n}?").wait() for n in range(4)]
    wb.projects.start("Handbook")
    folder = tmp_path / "sealed"
    expected = wb.store.prune(keep=2, seal_to=folder, dry_run=True)
    assert not folder.exists()
    assert expected["title"].tolist() == ["Question 1?", "Question 0?"]
    assert len(wb.conversations()) == 5
    pruned = wb.store.prune(keep=2, seal_to=folder)
    assert pruned["conversation_id"].tolist() == [runs[1].conversation_id, runs[0].conversation_id]
    assert pruned["n_bytes"].tolist() == expected["n_bytes"].tolist()
    assert pruned["n_sealed"].tolist() == [1, 1]
    assert {run.status for run in runs[:2]} == {"deleted"}
    with af.open_run(folder / f"{runs[0].run_id}.afrun") as sealed:
        assert sealed.question == "Question 0?"
        assert str(sealed.response).endswith(LONG)
    assert wb.store.prune(before=timedelta(hours=1)).empty
    assert len(wb.store.prune(before=datetime.now(UTC))) == 2
    assert [project.name for project in wb.projects] == ["Handbook"]


def test_prune_needs_a_limit_and_leaves_waiting_runs(tmp_path: Path) -> None:
    model = af.ScriptedModel([af.ToolCall("publish", {}), "Published."])
    with af.Workbench(model=model, approvals="ask", data_dir=tmp_path, interactive=False) as wb:

        @wb.tool(permission="confirm")
        def publish(_ctx: af.ToolContext) -> str:
            """Publish."""
            return "published"

        run = wb.ask("Publish it.").wait()
        assert run.status == "waiting"
        assert wb.store.prune(keep=0).empty
        assert run.approve().wait().response == "Published."
        with pytest.raises(af.errors.UsageError, match="Pass before= with a time or keep="):
            wb.store.prune()
        with pytest.raises(af.errors.UsageError, match="keep is -1"):
            wb.store.prune(keep=-1)
        with pytest.raises(af.errors.UsageError, match="before is 'soon'"):
            wb.store.prune("soon")


def test_backup_is_a_complete_store_while_a_run_streams(tmp_path: Path) -> None:
    model = af.ScriptedModel(lambda _request: LONG, delay_s=0.002)
    with af.Workbench(model=model, data_dir=tmp_path / "data", interactive=False) as wb:
        done = wb.ask("First?").wait(30)
        wb.ask("Second?")
        copy = wb.store.backup(tmp_path / "store.db")
        assert copy.stat().st_mode & 0o777 == 0o600
        with pytest.raises(af.errors.UsageError, match="exists"):
            wb.store.backup(copy)
        with pytest.raises(af.errors.UsageError, match="cannot be written: No such file"):
            wb.store.backup(tmp_path / "none" / "store.db")
    assert [file.name for file in tmp_path.glob("store.db*")] == ["store.db"]
    with af.Workbench(model=model, data_dir=tmp_path, interactive=False) as wb:
        assert wb.run(done.run_id).response == done.response
        assert wb.runs_df().set_index("question").at["Second?", "status"] == "abandoned"
