"""Scenes that are recorded with a model and then replayed from the cassette, with all their visible results."""

import asyncio
import json
import random
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd
from support.replies import call, delegate, in_request_protocol, report, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.core.approvals import ApprovalRequest, Decision
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.models.base import ModelEvent, ModelReply, ModelRequest
from artifactflow_nb.models.scripted import Script, ScriptedModel
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.store.prompts import resolve
from artifactflow_nb.tools.base import ToolContext

FRAMES = (
    "runs_df",
    "llm_calls_df",
    "tool_calls_df",
    "plan_steps_df",
    "projects.blocks_df",
    "events_df",
    "messages_df",
    "artifacts_df",
    "approvals_df",
)
TABLES = {
    "conversations": (),
    "messages": (),
    "runs": ("mode", "owner"),
    "llm_calls": ("cassette", "request_base"),
    "tool_calls": ("cassette",),
    "plan_jobs": (),
    "approvals": (),
    "events": (),
    "artifact_versions": (),
}
"""The tables of a store with the columns in which a replay differs."""


def rows(wb: af.Workbench) -> dict[str, list[dict[str, Any]]]:
    with closing(sqlite3.connect(wb._store)) as db:
        db.row_factory = sqlite3.Row
        prompts = "SELECT call_id, request_base, request_json FROM llm_calls ORDER BY rowid"
        whole = resolve(map(dict, db.execute(prompts).fetchall()), to_json)
        found = {
            table: [
                {name: row[name] for name in row.keys() if name not in left_out}  # noqa: SIM118 - a row's keys
                for row in db.execute(f"SELECT * FROM {table} ORDER BY 1, 2")  # noqa: S608 - the names above
            ]
            for table, left_out in TABLES.items()
        }
    calls = [{**row, "request_json": whole[row["call_id"]]} for row in found["llm_calls"]]
    return {**found, "llm_calls": calls}


def assert_same(now: dict[str, list[dict[str, Any]]], recorded: dict[str, list[dict[str, Any]]]) -> None:
    """Compare value by value, for a readable message."""
    found = [
        (table, name, before[name], after[name])
        for table in recorded
        for before, after in zip(recorded[table], now[table], strict=False)
        for name in before
        if before[name] != after[name]
    ]
    assert found == []
    counts = [{table: len(entries) for table, entries in tables.items()} for tables in (now, recorded)]
    assert counts[0] == counts[1]


WAIT_S = 30


def script(request: ModelRequest) -> Any:
    """Two parallel search agents, a report that needs approval, and an answer."""
    step = sum(message.role == "assistant" for message in request.messages)
    if requesting_agent(request) != "lead":
        question = request.messages[1].content
        return [f"Looking for {question}. ", call("look", word=question)] if step == 0 else f"{question} is found. " * 9
    turns = [
        delegate("search_agent", "apples") + delegate("search_agent", "pears"),
        report("Apples and pears."),
        "Done.",
    ]
    return turns[min(step, 2)]


def open_workbench(folder: Path, **options: Any) -> af.Workbench:
    wb = af.Workbench(
        approvals=options.pop("approvals", {"create_artifact": "ask"}),
        interactive=False,
        data_dir=folder / "data" if "record" in options else None,
        **options,
    )

    @wb.tool(agent="search_agent")
    async def look(ctx: af.ToolContext, word: str) -> str:
        """Look a word up."""
        await asyncio.sleep(0.001)
        lookups.append(word)
        return f"{word}, seen at {ctx.now.isoformat()}"

    lookups: list[str] = []
    wb.lookups = lookups  # type: ignore[attr-defined]  # for the tests
    return wb


def start_with_listener(wb: af.Workbench, question: str, **arguments: Any) -> tuple[af.Run, list[StreamEvent]]:
    """Start a run with a listener; return the run and the list of its events."""
    events: list[StreamEvent] = []
    controller = wb._thread.engine.controller

    async def begin() -> Any:
        stored = await controller.begin(question, **arguments)
        await controller.subscribe(stored.run_id, events.append)
        await controller.start(stored)
        return stored

    return wb._handle(wb._thread.call(begin())), events


class Uneven(ScriptedModel):
    """Waits a seeded random time for each turn and piece, so that concurrent agents overtake each other."""

    def __init__(self, turns: Any, seed: int = 0, longest_s: float = 0.003) -> None:
        super().__init__(turns)
        self._random = random.Random(seed)  # noqa: S311 - a seed repeats the same numbers
        self._longest_s = longest_s

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        await asyncio.sleep(self._random.random() * self._longest_s)
        async for event in super().stream(request):
            if self._random.random() < 0.3:
                await asyncio.sleep(self._random.random() * self._longest_s)
            yield event


class Eventful(ScriptedModel):
    """Each turn of the script is a list of model events: deltas, retries, a reply or an error."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        events: Any = self._script(request)
        for event in [events] if isinstance(events, Exception | ModelReply) else events:
            await asyncio.sleep(0.001)
            if isinstance(event, Exception):
                raise event
            yield event


def step_of(request: ModelRequest) -> int:
    """The number of turns of the job since the newest question."""
    question_index = max(n for n, message in enumerate(request.messages) if message.role == "user")
    return sum(message.role == "assistant" for message in request.messages[question_index:])


def with_look(wb: af.Workbench, **options: Any) -> None:
    """Register a tool of the search agent and the lead agent."""

    async def look(ctx: ToolContext, word: str) -> str:
        """Look a word up."""
        await asyncio.sleep(0.001 * (len(word) % 4))
        return f"{word}, seen at {ctx.now.isoformat()}"

    entry = af.tool(**options)(look)
    for agent in ("search_agent", "crawl_agent", "lead_agent"):
        wb.tool(entry, agent=agent)


def with_confirmed_look(wb: af.Workbench) -> None:
    """Register the tool so that each call needs an approval."""
    with_look(wb, permission="confirm")


def jobs(*words: str) -> str:
    return "".join(delegate("search_agent", word) for word in words)


def searching(request: ModelRequest) -> Any:
    """The turns of a sub-agent: it looks up its instruction twice and answers."""
    word = request.messages[1].content
    return [f"Looking for {word}. " + call("look", word=word), call("look", word=word * 2), f"{word} is found. " * 5][
        min(step_of(request), 2)
    ]


@dataclass
class Stage:
    """A workbench and the events of its runs.

    Attributes:
        wb: The workbench.
        is_played: Whether it plays from the cassette.
    """

    wb: af.Workbench
    is_played: bool
    runs: list[af.Run] = field(default_factory=list)
    events: list[list[StreamEvent]] = field(default_factory=list)

    def ask(self, question: str = "What?", **arguments: Any) -> af.Run:
        """Start a run with a listener, without waiting for it."""
        run, events = start_with_listener(self.wb, question, **arguments)
        self.runs.append(run)
        self.events.append(events)
        return run

    def click(self, run: af.Run, nth: int = 0, approved: bool = True, **decision: Any) -> None:
        """Decide as a click does; a replay repeats the decision by itself."""
        if not self.is_played:
            self.decide(run.pending[nth], "click", Decision(approved, **decision))

    def code(self, run: af.Run, nth: int = 0, approved: bool = True, **decision: Any) -> None:
        """Decide as a cell does; in a replay the cell decides again."""
        self.decide(run.pending[nth], "code", Decision(approved, **decision))

    def decide(self, request: ApprovalRequest, decider: str, decision: Decision) -> None:
        """Decide on a request by `click` or by `code`."""
        decision = replace(decision, by_code=decider == "code")
        self.wb._thread.call(self.wb._thread.engine.controller.decide(request.id, decision))

    def results(self) -> dict[str, Any]:
        """All visible results, without the columns that differ in a replay."""
        self.wb._thread.call(asyncio.sleep(0))
        frames = {
            name: attrgetter(name)(self.wb)(columns="all").drop(columns=["mode", "cassette"], errors="ignore")
            for name in FRAMES
        }
        return {
            "frames": frames,
            "rows": rows(self.wb),
            "events": [sorted(event_values(event) for event in events) for events in self.events],
            "ends": [(run.status, run.error) for run in self.runs],
            "shown": [(repr(run), run.response, run.metrics._repr_html_()) for run in self.runs],
        }


def event_values(event: StreamEvent) -> tuple[Any, ...]:
    data = json.dumps(dict(event.data), sort_keys=True, default=str)
    return event.seq, event.type, event.timestamp, event.agent, event.tool, data


Scene = Callable[[Stage], Any]
Setup = Callable[[af.Workbench], Any]


def open_scene(folder: Path, *, setup: Setup = lambda _wb: None, **options: Any) -> af.Workbench:
    """Open a workbench for a scene; one that records has its data in the folder, others in a temporary one."""
    data = {"data_dir": folder / "data"} if "record" in options else {}
    wb = af.Workbench(**{"interactive": False, **data, **options})
    setup(wb)
    return wb


def play_both(
    folder: Path,
    scene: Scene,
    turns: "Script | ScriptedModel",
    *,
    times: int = 1,
    only_recorded: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Record and replay a scene; all results must be equal, and the replay must not call the model.

    What `only_recorded` has is passed to the workbench that records, and not to the one that plays.
    """
    model = turns if isinstance(turns, ScriptedModel) else Uneven(in_request_protocol(turns))
    cassette = folder / "c.jsonl"
    with open_scene(folder, model=model, record=cassette, **options, **(only_recorded or {})) as wb:
        stage = Stage(wb, is_played=False)
        result, recorded = scene(stage), stage.results()
    for _ in range(times):
        with open_scene(folder, replay=cassette, **options) as wb:
            stage = Stage(wb, is_played=True)
            played = scene(stage)
            assert_equal_results(stage.results(), recorded)
            assert played == result
    return result


def assert_equal_results(now: dict[str, Any], recorded: dict[str, Any]) -> None:
    """Compare value by value, for a readable message."""
    assert now["ends"] == recorded["ends"]
    assert_same(now["rows"], recorded["rows"])
    assert now["shown"] == recorded["shown"]
    for after, before in zip(now["events"], recorded["events"], strict=True):
        assert [each for each in after if each not in before] == []
        assert after == before
    for name, frame in recorded["frames"].items():
        pd.testing.assert_frame_equal(now["frames"][name][list(frame)], frame)
