"""Two processes write to one store at the same time."""

import json
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.forked_python import fast_python
from support.two_writers import CONVERSATION, LEDGER, ROOT, WRITES_PER_TURN, Writer

from artifactflow_nb.store.database import Database, connect

SCRIPT = Path(__file__).parents[1] / "support" / "two_writers.py"
NAMES = ("left", "right")
TURNS = 400


def start(path: Path, name: str, turns: int) -> "subprocess.Popen[str]":
    command = [*fast_python(), str(SCRIPT), str(path), name, str(turns)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def let_them_write(path: Path, turns: int) -> list[dict[str, Any]]:
    """Start all processes at the same moment; return their output."""
    writers = [start(path, name, turns) for name in NAMES]
    give_up = time.monotonic() + 30
    while not all(Path(f"{path}.{name}").exists() for name in NAMES):
        assert time.monotonic() < give_up
        assert all(writer.poll() in {None, 0} for writer in writers), [writer.communicate() for writer in writers]
        time.sleep(0.005)
    Path(f"{path}.go").touch()
    outputs = [writer.communicate(timeout=60) for writer in writers]
    assert [error for _, error in outputs] == ["", ""]
    return [json.loads(output) if output else {} for output, _ in outputs]


async def test_two_processes_lose_no_write(tmp_path: Path) -> None:
    """Thousands of writes of each process are all stored, and no write fails because of a lock."""
    path = tmp_path / "store.db"
    database = Database(path)
    await database.open()
    await Writer(database, "both").begin_conversation()
    results = let_them_write(path, TURNS)
    await database.close()
    keys = {f"{name}-{number}" for name in NAMES for number in range(TURNS)}
    with closing(connect(path)) as db:
        tables = {"messages": 1, "runs": 1, "llm_calls": 0, "tool_calls": 0, "approvals": 0, "artifact_versions": 1}
        counts = {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}  # noqa: S608
        assert counts == {table: len(keys) + more for table, more in tables.items()}
        assert db.execute("SELECT count(*) FROM events").fetchone()[0] == 3 * len(keys) + 2
        sql = "SELECT content, version FROM artifact_versions WHERE artifact_id = ? ORDER BY version DESC LIMIT 1"
        ledger = db.execute(sql, (LEDGER,)).fetchone()
        assert (set(ledger["content"].split()), ledger["version"]) == (keys, len(keys) + 1)
        unfinished = "SELECT count(*) FROM messages m JOIN runs r USING (message_id) WHERE m.status <> 'completed'"
        assert db.execute(unfinished).fetchone()[0] == 0
        undecided = "SELECT count(*) FROM approvals WHERE decision IS NULL"
        assert db.execute(undecided).fetchone()[0] == 0
        active = db.execute("SELECT active_message_id FROM conversations WHERE conversation_id = ?", (CONVERSATION,))
        assert active.fetchone()[0] in keys - {ROOT}
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    assert TURNS * WRITES_PER_TURN >= 1_000
    assert sum(result["conflicts"] for result in results) > 0, "they never met, so nothing was tested"


@pytest.mark.parametrize("attempt", range(3))
def test_two_processes_can_create_one_store(tmp_path: Path, attempt: int) -> None:
    """The first process creates the tables."""
    let_them_write(tmp_path / "store.db", 0)
