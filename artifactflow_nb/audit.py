"""A sealed run, run again: whether the same comes out of what was recorded.

The flow runs as it would for anybody: prompts are built, replies are read, artifacts are written, in a store of its
own. Models, tools and the person are played. What differs is noted, and never stops it. A graph of a user's own is not
in the file: what it did is played as a whole.
"""

import asyncio
import os
import re
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from artifactflow_nb.agents.base import AgentConfig
from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.engine import STORE_FILE, Engine
from artifactflow_nb.errors import UsageError
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.mcp_tools.offers import from_text
from artifactflow_nb.origin import Origin
from artifactflow_nb.projects import WORK
from artifactflow_nb.recordings.cassette import Cassette
from artifactflow_nb.recordings.change import Change
from artifactflow_nb.recordings.deck import Deck
from artifactflow_nb.recordings.graph_steps import GRAPH
from artifactflow_nb.recordings.old_ids import ids_by_place
from artifactflow_nb.recordings.secret_names import MASK
from artifactflow_nb.recordings.values import RecordedRun
from artifactflow_nb.settings import Settings
from artifactflow_nb.store.database import connect, insert
from artifactflow_nb.text.cards import Card, Code, Fold, Rows, Shown
from artifactflow_nb.text.figures import count
from artifactflow_nb.tools.base import Tool, ToolPermission, stand_in

TABLES = {
    "messages": (),
    "runs": ("mode", "owner", "package_version", "manifest_json"),
    "llm_calls": ("cassette", "request_json", "request_hash", "context_chars", "offer_json"),
    "tool_calls": ("cassette",),
    "plan_jobs": (),
    "block_jobs": (),
    "approvals": ("decision_number",),
    "events": (),
    "artifact_versions": (),
}
"""What is compared, with the columns that are left out: they tell who ran it, or are told as prompts that differ."""

_ID = re.compile(r"\b(?:call|tool|req)-[0-9a-z]+\b")
_MOST_SHOWN = 20
_VALUE_CHARS = 120


@dataclass(frozen=True, slots=True, repr=False)
class Replay(Shown):
    """What came of running a sealed run again.

    Attributes:
        run_id: The run.
        is_same: Whether its events, calls, decisions, artifacts and answer are those of the recording.
        differences: What is otherwise, in the order of the tables.
        prompts: How what its models were asked differs from what was recorded: another release's prompts, or tools that
            are not registered here.
    """

    run_id: str
    is_same: bool
    differences: tuple[str, ...]
    prompts: tuple[str, ...]

    @property
    def _said(self) -> str:
        return "came out the same" if self.is_same else "came out otherwise"

    def __repr__(self) -> str:
        return f"Replay({self.run_id!r}: {self._said})"

    def _card(self) -> Card:
        rows: Rows = [
            ("run", Code(self.run_id)),
            ("differences", len(self.differences)),
            ("prompts that differ", len(self.prompts)),
        ]
        folds = [
            Fold(title, Code("\n".join(told[:_MOST_SHOWN])), is_open=True)
            for title, told in (("What is otherwise", self.differences), ("Prompts", self.prompts))
            if told
        ]
        return Card("Replay", self._said, rows, folds)


def replay(
    run_id: str,
    store: Path,
    cassette: bytes,
    *,
    tools: Iterable[Tool] = (),
    agents: Iterable[AgentConfig] = (),
    prompts: str | os.PathLike[str] | None = None,
) -> Replay:
    """Run the runs of a cassette again and compare them with a store.

    Args:
        run_id: The run that it is about; those before it on its branch are run too.
        store: The store that holds them as they were.
        cassette: The cassette.
        tools: The tools that they used, where these are at hand; others are stood in for.
        agents: The agents beside the built-in ones.
        prompts: The folder with one's own prompts; without it the packaged ones, and for own agents none.

    Errors: `UsageError` if an agent is missing; `CassetteError` for a cassette that cannot be read.
    """
    agents = list(agents)
    with tempfile.TemporaryDirectory(prefix="artifactflow-") as folder:
        place = Path(folder)
        path = place / "cassette.jsonl"
        path.write_bytes(cassette)
        opened = Cassette.open(path)
        runs = [opened.run(head.run_id) for head in opened.runs]
        own = Path(prompts) if prompts is not None else _stand_ins(place / "prompts", agents)
        found = _in_thread(_play(place / "store", store, opened, runs, list(tools), list(agents), own))
        told = tuple(_differences(store, place / "store" / STORE_FILE))
    return Replay(run_id, not told, told, tuple(found))


def _stand_ins(folder: Path, agents: Iterable[AgentConfig]) -> Path:
    """Prompts for agents of one's own, whose files are not at hand: that they differ is told, and hurts nothing."""
    folder.mkdir()
    library = PromptLibrary()
    for config in agents:
        name = config.prompt or config.name
        try:
            library.check(name)
        except UsageError:
            (folder / f"{name}.md").write_text("", encoding="utf-8")
    return folder


def _in_thread(work: Any) -> list[str]:
    """Run a coroutine on a loop of its own: the caller's thread may have one already."""
    found: list[list[str] | BaseException] = []

    def run() -> None:
        try:
            found.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            found.append(error)

    thread = threading.Thread(target=run, name="artifactflow-replay")
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


async def _play(
    folder: Path,
    store: Path,
    cassette: Cassette,
    runs: Sequence[RecordedRun],
    tools: list[Tool],
    agents: list[AgentConfig],
    prompts: Path,
) -> list[str]:
    """Run them; how their prompts differ."""
    deck = Deck("replay", cassette=cassette, audits=True)
    # What is set in the environment is for others: AF_MODE, AF_TEMPERATURE or AF_BUDGET would change what comes out.
    engine = Engine(Settings.model_construct(data_dir=folder), deck=deck, prompts=prompts)
    with closing(connect(store, read_only=True)) as db:
        written = [dict(row) for row in db.execute("SELECT * FROM artifact_versions ORDER BY rowid")]
        conversations = [dict(row) for row in db.execute("SELECT * FROM conversations")]
    for config in agents:
        engine.register_agent(config)
    with_agents = [run for run in runs if GRAPH not in run.settings]
    _check_agents(engine, with_agents)
    _register(engine, with_agents, tools)
    known: set[str] = set()
    async with engine:
        if any(row["message_id"] is None for row in written):
            known |= await engine.database.write(partial(_write_before, conversations=conversations, written=written))
        for run in _begun_by_hand(runs):
            if (described := run.settings.get(GRAPH)) is not None:
                engine.flows.play(run.flow, described)
            begun = await engine.controller.begin(
                run.question,
                conversation_id=run.conversation_id if run.conversation_id in known else None,
                parent_message_id=run.parent_message_id,
                flow=run.flow,
                budget=run.settings.get("budget"),
                model=run.settings.get("model"),
                change=Change.of_settings(run.settings),
                work=run.settings.get(WORK),
                origin=Origin.of_settings(run.settings),
            )
            await engine.database.write(partial(_skip_versions, run=begun.run_id, written=written))
            await engine.database.write(partial(_write_by_hand, message=None, written=written))
            known.add(run.conversation_id)  # its first root may lie on another branch, which is not in the file
            await (await engine.controller.start(begun))
            await engine.database.write(partial(_write_by_hand, message=run.message_id, written=written))
    players = (deck.player(run.run_id) for run in runs)
    return [found for player in players if player is not None for found in player.differences]


def _begun_by_hand(runs: Sequence[RecordedRun]) -> Iterator[RecordedRun]:
    """Those that no other of them begins."""
    known = {run.run_id for run in runs}
    for run in runs:
        origin = Origin.of_settings(run.settings)
        if origin is None or origin.run_id not in known:
            yield run


def _write_before(
    db: sqlite3.Connection, *, conversations: Sequence[Mapping[str, Any]], written: Sequence[Mapping[str, Any]]
) -> set[str]:
    """Put in what a person wrote before the first run, on no message, with its conversations; their ids."""
    ours = [row for row in written if row["run_id"] is None and row["message_id"] is None]
    found = {row["conversation_id"] for row in ours}
    for row in conversations:
        if row["conversation_id"] in found:
            insert(db, "conversations", {**row, "active_message_id": None})
    for row in ours:
        insert(db, "artifact_versions", row)
    return found


def _skip_versions(db: sqlite3.Connection, *, run: str, written: Sequence[Mapping[str, Any]]) -> None:
    """Leave out the versions that other branches wrote before a run: they are not in the file, and count."""
    first: dict[tuple[str, str], int] = {}
    for row in written:
        if row["run_id"] == run:
            key = row["conversation_id"], row["artifact_id"]
            first[key] = min(row["version"], first.get(key, row["version"]))
    for key, version in first.items():
        db.execute("INSERT OR REPLACE INTO deleted_versions VALUES (?, ?, ?)", (*key, version - 1))


def _write_by_hand(db: sqlite3.Connection, *, message: str | None, written: Sequence[Mapping[str, Any]]) -> None:
    """Put the versions in that a person wrote after a run, or before the first: nobody is here to write them again."""
    for row in written:
        if row["run_id"] is None and row["message_id"] == message:
            insert(db, "artifact_versions", row, or_ignore=True)  # the run wrote one of that number: that is told


def _check_agents(engine: Engine, runs: Sequence[RecordedRun]) -> None:
    missing = {turn.agent for run in runs for turn in run.turns} - set(engine.agents)
    if missing:
        named = ", ".join(sorted(missing))
        raise UsageError(f"The run used agents that are not built in: {named}. Pass agents=[...] with them.")


def _register(engine: Engine, runs: Sequence[RecordedRun], tools: list[Tool]) -> None:
    """Offer each agent the tools that it used: those that are at hand, else stand-ins."""
    at_hand = {tool.name: tool for tool in tools}
    known = {entry.name for entry in engine.tools} | _offered_by_servers(runs)
    for run in runs:
        for turn in run.turns:
            for call in turn.calls:
                if (call.tool in known and call.tool not in at_hand) or not call.tool.isidentifier():
                    continue
                asks = ToolPermission.AUTO if call.ask is None else ToolPermission.CONFIRM
                entry = at_hand.setdefault(call.tool, stand_in(call.tool, asks))
                if entry.name not in engine.agents[turn.agent].tool_names:
                    engine.register_tool(entry, agent=turn.agent)


def _offered_by_servers(runs: Sequence[RecordedRun]) -> set[str]:
    """The names of tools of MCP servers, which come from the recording themselves."""
    return {offer.name for run in runs if run.manifest.get("mcp") for offer in from_text(run.manifest["mcp"])}


def _differences(recorded: Path, now: Path) -> Iterable[str]:
    with closing(connect(recorded, read_only=True)) as db:
        names = ids_by_place(db)
    before, after = _rows(recorded, names), _rows(now, {})
    for table in TABLES:
        for key in sorted({*before[table], *after[table]}):
            was, is_now = before[table].get(key), after[table].get(key)
            if was is None or is_now is None:
                yield f"{table} {key}: {'new' if was is None else 'missing'}"
                continue
            for column in was:
                if was[column] != is_now[column]:
                    yield f"{table} {key}, {column}: {_short(was[column])} became {_short(is_now[column])}"


def _rows(store: Path, names: Mapping[str, str]) -> dict[str, dict[str, dict[str, Any]]]:
    """The rows by table and the values of their first two columns, in which these ids have other names."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    with closing(connect(store, read_only=True)) as db:
        for table, left_out in TABLES.items():
            cursor = db.execute(f"SELECT * FROM {table}")  # noqa: S608 - a name of this module
            rows = ({name: _renamed(row[name], names) for name in row.keys()} for row in cursor)  # noqa: SIM118 - a row
            found[table] = {_key(row, table): _compared(row, left_out) for row in rows if not _is_aside(row, table)}
    return found


def _is_aside(row: Mapping[str, Any], table: str) -> bool:
    """Whether a row tells what went wrong in middleware, which nobody brings along here."""
    return table == "events" and row["event_type"] == StreamEventType.MIDDLEWARE_ERROR


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    return _ID.sub(lambda found: names.get(found[0], found[0]), value) if names and isinstance(value, str) else value


def _key(row: Mapping[str, Any], table: str) -> str:
    names = {"events": ("run_id", "seq"), "artifact_versions": ("artifact_id", "version")}.get(table)
    return " ".join(str(row[name]) for name in names) if names else str(next(iter(row.values())))


def _compared(row: Mapping[str, Any], left_out: Sequence[str]) -> dict[str, Any]:
    told = {name: value for name, value in row.items() if name not in left_out}
    if told.get("event_type") == StreamEventType.LLM_COMPLETE:  # which also tells how long the prompt was
        told["data_json"] = {**orjson.loads(told["data_json"]), "context": None}
    if told.get("pieces_json") and MASK in f"{told['content']}{told['reasoning']}":  # rows and pieces are cut each
        told["pieces_json"] = {**orjson.loads(told["pieces_json"]), "chars": None}
    return told


def _short(value: object) -> str:
    told = repr(value)
    return told if len(told) <= _VALUE_CHARS else f"{told[:_VALUE_CHARS]}... ({count(len(told), 'character')})"
