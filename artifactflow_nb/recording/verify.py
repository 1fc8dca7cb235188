"""Verification: a recorded run is executed again, with its recorded model, tools and decisions, and compared.

The engine is an ordinary one; the recording stands behind its public protocols. Requests, results and artifacts are
compared by their places in the jobs of the run. A changed prompt is reported with its difference.
"""

import asyncio
import inspect
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import orjson

from artifactflow_nb.agents.base import AgentConfig
from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.core.approvals import ApprovalRequest, Decision
from artifactflow_nb.core.budget import Price
from artifactflow_nb.core.clock_ids import call_id
from artifactflow_nb.core.document.delegating import DELEGATING_TOOLS
from artifactflow_nb.core.document.skills import SKILLS_FOLDER, SKILLS_SETTING
from artifactflow_nb.core.events import MAIN_JOB
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.redaction.names import MASK
from artifactflow_nb.core.redaction.redactor import is_same_text
from artifactflow_nb.core.runs import GRAPH_SETTING, WORK_SETTING, ParentCall
from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, Code, Details
from artifactflow_nb.core.text.format import count
from artifactflow_nb.engine.engine import STORE_FILE, Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.flows.tool_call import with_decision_note
from artifactflow_nb.recording.fork import FORKED
from artifactflow_nb.recording.recorded_model import RecordedClock, RecordedIds, RecordedModel, RecordedPrice
from artifactflow_nb.recording.rows import Row, RunRows, load_run_rows, upsert
from artifactflow_nb.recording.steps import Step, steps_of
from artifactflow_nb.store.approvals import RequestState, parse_decision
from artifactflow_nb.store.database import connect
from artifactflow_nb.store.encoding import insert
from artifactflow_nb.store.migrations import from_microseconds
from artifactflow_nb.store.runs import CANCELLED, WAITING, load_run
from artifactflow_nb.tools.base import Tool, ToolContext, ToolPermission, placeholder_tool
from artifactflow_nb.tools.mcp.offers import McpToolOffer, offers_from_json, tool_from_offer

T = TypeVar("T")

_MOST_SHOWN = 20
_VALUE_CHARS = 120
_MOST_PAUSES = 1_000


@dataclass(frozen=True, slots=True, repr=False)
class VerificationReport(CardMixin):
    """The result of executing a recorded run again.

    Attributes:
        run_id: The run.
        differences: Replies, calls, results, decisions, artifacts and answers that differ.
        prompts: Differences between the prompts, by other prompt files, tools or releases.
        skipped: The runs of adapted graphs, which are not executed again: only the graph knows what its nodes do.
    """

    run_id: str
    differences: tuple[str, ...]
    prompts: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether nothing but prompts differs."""
        return not self.differences

    @property
    def _summary(self) -> str:
        prompts = f", {count(len(self.prompts), 'prompt')} changed" if self.prompts else ""
        skipped = f", {count(len(self.skipped), 'run')} of graphs not executed" if self.skipped else ""
        return ("came out the same" if self.is_same else "came out otherwise") + prompts + skipped

    def __repr__(self) -> str:
        return f"VerificationReport({self.run_id!r}: {self._summary})"

    def _card(self) -> Card:
        rows: CardRows = [
            ("run", Code(self.run_id)),
            ("differences", len(self.differences)),
            ("prompts that differ", len(self.prompts)),
            ("graphs, not executed again", ", ".join(self.skipped)),
        ]
        folds = [
            Details(title, Code("\n".join(lines[:_MOST_SHOWN])), is_open=True)
            for title, lines in (("Differences", self.differences), ("Prompts", self.prompts))
            if lines
        ]
        return Card("Verification", self._summary, rows, folds)


def verify(
    rows: RunRows,
    *,
    tools: Iterable[Tool] = (),
    offers: Iterable[tuple[str, Tool]] = (),
    agents: Iterable[AgentConfig] = (),
    prompts: Path | None = None,
) -> VerificationReport:
    """Execute the runs of a recording again and compare them.

    Args:
        rows: The recording; the earlier runs of a branch are executed too.
        tools: The user's tools, so that their descriptions are compared; their results are the recorded ones.
        offers: The user's tools with the names of the agents that they are offered to, in order.
        agents: The agents that are not built in.
        prompts: The folder with the user's prompts.

    Errors: `UsageError` if an agent is missing, or for a run that was stored before release 0.1.0.
    """
    _check_ids(rows)
    with tempfile.TemporaryDirectory(prefix="artifactflow-") as folder:
        verifier = _Verifier(rows, list(tools), list(offers), list(agents))
        found = _in_thread(verifier.run(Path(folder), prompts))
    return VerificationReport(rows.run_id, tuple(found), tuple(verifier.model.differences), tuple(verifier.skipped))


def _check_ids(rows: RunRows) -> None:
    """Refuse runs of releases whose ids were random: recorded results are found by derived ids."""
    for row in rows["llm_calls"]:
        attempts = range(len(rows["llm_calls"]))
        ids = (call_id(row["run_id"], row["job_id"], row["step"], attempt) for attempt in attempts)
        if row["job_id"] == MAIN_JOB and row["call_id"] not in ids:
            raise UsageError(
                f"The run {row['run_id']} was stored before release 0.1.0, so it cannot be executed again. "
                "It can be shown, imported and continued."
            )


def _in_thread(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine on a loop of its own: the caller's thread may have one already."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name="artifactflow-verify")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


class _VerifyingEngine(Engine):
    """An engine that indexes no sources, because search results and pages are recorded."""

    async def _sources_of_a_run(self) -> list[str]:
        return []


class _Verifier:
    """Executes the runs of a recording again."""

    def __init__(
        self, rows: RunRows, tools: list[Tool], offers: list[tuple[str, Tool]], agents: list[AgentConfig]
    ) -> None:
        self._rows = rows
        self._offers = offers
        self._tools = tools
        self._agents = agents
        self._calls = {row["tool_call_id"]: row for row in rows["tool_calls"]}
        self._requests = {row["request_id"]: row for row in rows["approvals"]}
        self._confirmed = {row["tool_call_id"] for row in rows["approvals"]}
        self._graphs = {row["run_id"] for row in rows["runs"] if GRAPH_SETTING in orjson.loads(row["settings_json"])}
        self.model = RecordedModel(rows)
        self.skipped: list[str] = []

    async def run(self, folder: Path, prompts: Path | None) -> list[str]:
        """Execute all runs and return the differences."""
        run = self._rows.run
        settings = orjson.loads(run["settings_json"])
        config = {name: settings[name] for name in ("graph_config",) if name in settings}
        calls = (row for row in self._rows["llm_calls"] if row["run_id"] not in self._graphs)
        offers = (orjson.loads(row["offer_json"] or "{}") for row in calls)
        protocols = (offer["tool_protocol"] for offer in offers if "tool_protocol" in offer)
        config["tool_protocol"] = next(protocols, "xml")
        first = min(row["started_at"] for row in self._rows["runs"])
        ids = RecordedIds(self._rows)
        engine = _VerifyingEngine(
            Settings.model_construct(data_dir=folder, prices=self._prices(), **config),
            model=self.model,
            approvals=self._policy,
            prompts=self._with_all_prompts(folder / "prompts", prompts),
            clock=RecordedClock(from_microseconds(first)),
            ids=ids,
        )
        for agent in self._agents:
            is_named = agent.model is None or isinstance(agent.model, str)
            engine.register_agent(agent if is_named else replace(agent, model=None))  # the recording replies
        self._register(engine)
        async with engine:
            await engine.database.write(self._write_before)
            recorded_runs = {row["run_id"] for row in self._rows["runs"]}
            for row in self._rows["runs"]:
                if row["parent_run_id"] in recorded_runs:
                    continue
                if row["run_id"] in self._graphs:
                    self.skipped.append(row["run_id"])
                    ids.skip(row)
                    await engine.database.write(partial(upsert, tables=self._rows.of_run(row["run_id"]).tables))
                else:
                    await self._execute(engine, row)
                await engine.database.write(partial(self._write_by_hand, message_id=row["message_id"]))
        return list(self._differences(folder / STORE_FILE))

    def _prices(self) -> dict[str, Price]:
        """The price that every model has here: that of the recording."""
        names = {row["request_model"] for row in self._rows["llm_calls"]} | {self.model.default_model}
        names |= {agent.model for agent in self._agents if agent.model is not None}
        for row in self._rows["runs"]:
            settings = orjson.loads(row["settings_json"])
            agents = (settings.get("graph_config") or {}).values()
            names |= {settings.get("model"), *(agent.get("model") for agent in agents if isinstance(agent, dict))}
        return {name: RecordedPrice(input=0, output=0) for name in names if isinstance(name, str)}

    def _with_all_prompts(self, folder: Path, prompts: Path | None) -> Path | None:
        """The folder of prompts with stand-ins for missing ones, which are then reported as differences."""
        library, missing = PromptLibrary(prompts), []
        for agent in self._agents:
            try:
                library.check(agent.prompt or agent.name)
            except UsageError:
                missing.append(agent.prompt or agent.name)
        if not missing:
            return prompts
        folder.mkdir()
        for path in () if prompts is None else prompts.glob("*.md"):
            shutil.copy(path, folder)
        for name in missing:
            (folder / f"{name}.md").write_text("This prompt is missing.\n", encoding="utf-8")
        return folder

    # --- execution ---------------------------------------------------------------------------------------------------

    async def _execute(self, engine: Engine, row: Row) -> None:
        """Ask a question again and take the recorded decisions."""
        settings = orjson.loads(row["settings_json"])
        _write_skills(engine.folder / SKILLS_FOLDER, settings.get(SKILLS_SETTING) or {})
        message = next(each for each in self._rows["messages"] if each["message_id"] == row["message_id"])
        known = await engine.conversations.list_conversations(limit=1_000)
        exists = row["conversation_id"] in {conversation.conversation_id for conversation in known}
        origin = ParentCall.from_settings(settings)
        run = await engine.controller.begin(
            row["question"],
            conversation_id=row["conversation_id"] if exists else None,
            parent_message_id=message["parent_id"],
            flow=row["flow"],
            budget=settings.get("budget"),
            model=settings.get("model"),
            work=settings.get(WORK_SETTING),
            parent_call=origin,
        )
        await engine.database.write(partial(self._leave_out_versions, run_id=row["run_id"]))
        self.model.cancelled.clear()
        task = await engine.controller.start(run)
        for _ in range(_MOST_PAUSES):
            cancelled = asyncio.ensure_future(self.model.cancelled.wait())
            await asyncio.wait([task, cancelled], return_when=asyncio.FIRST_COMPLETED)
            cancelled.cancel()
            stored = await engine.runs.get(run.run_id)
            is_cancelled = not task.done()
            if stored.status == WAITING and row["status"] == CANCELLED:
                requests = await engine.approvals.open_requests(run.run_id)
                is_cancelled |= all(self._decision(request.id) is None for request in requests)
            if is_cancelled:
                await engine.controller.cancel(run.run_id)
                return
            if stored.status != WAITING or not await self._decide(engine, run.run_id):
                return
            task = await engine.controller.start(stored) if await engine.approvals.can_resume(run.run_id) else task
            await engine.controller.join(run.run_id)

    async def _decide(self, engine: Engine, run_id: str) -> bool:
        """Take the recorded decisions on open requests; True if there was one."""
        open_requests = await engine.approvals.open_requests(run_id)
        decided = [(request.id, self._decision(request.id)) for request in open_requests]
        decided.sort(key=lambda item: self._requests.get(item[0], {}).get("decision_number") or 0)
        for request_id, decision in decided:
            still_open = {request.id for request in await engine.approvals.open_requests(run_id)}
            if decision is not None and request_id in still_open:
                await engine.controller.decide(request_id, decision)
        return any(decision is not None for _, decision in decided)

    def _decision(self, request_id: str) -> Decision | None:
        row = self._requests.get(request_id)
        return None if row is None else parse_decision(row)

    def _policy(self, request: ApprovalRequest) -> str:
        """The recorded verdict of the policy; `ask` where a person decided, and for new requests."""
        row = self._requests.get(request.id)
        if row is None or not row["settled"] or row["decision"] is None:
            return "ask"
        return "approve" if row["decision"] in {"approved", "edited"} else "deny"

    # --- tools -------------------------------------------------------------------------------------------------------

    def _register(self, engine: Engine) -> None:
        """Offer each agent the tools that it used, and give all tools their recorded results."""
        own_tools = {tool.name: tool for tool in self._tools}
        for agent, tool in self._offers:
            engine.register_tool(tool, agent=agent)
        self._register_server_tools(engine)
        known = {entry.name for entry in engine.tools}
        for row in self._rows["llm_calls"]:
            if row["run_id"] not in self._graphs and (agent := row["agent_name"]) not in engine.agents:
                raise UsageError(f"The run used the agent {agent!r}, which is not built in. Pass agents=[...] with it.")
        for row in self._rows["tool_calls"]:
            name, agent = row["tool_name"], row["agent_name"]
            if row["run_id"] in self._graphs:
                continue
            if (name in known and name not in own_tools) or not name.isidentifier():
                continue
            entry = own_tools.setdefault(name, placeholder_tool(name, ToolPermission.AUTO))
            if name not in engine.agents[agent].tool_names:
                engine.register_tool(entry, agent=agent)
        before = list(engine.tools)
        engine.tools.replace_tools(before, [self._recorded(entry) for entry in before])

    def _register_server_tools(self, engine: Engine) -> None:
        """Offer each agent the tools that MCP servers offered it."""
        offers = orjson.loads(self._rows.run["manifest_json"]).get("mcp")
        for offer in offers_from_json(offers) if offers else ():
            tool = tool_from_offer(offer, _no_server)
            for agent in offer.agents:
                engine.register_tool(tool, agent=agent)

    def _recorded(self, entry: Tool) -> Tool:
        """A tool that returns recorded results, unless it uses only the store or the flow carries it out."""
        stand_ins = {row["tool_name"] for row in self._rows["tool_calls"]} - set(DELEGATING_TOOLS)
        is_live = entry.uses_store_only or (entry.handler is None and entry.name not in stand_ins)
        handler = self._live(entry.handler) if is_live and entry.handler is not None else None
        return replace(entry, permission=self._permission, handler=handler if is_live else self._result)

    def _live(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """A handler that uses only the store; a call whose result a fork replaced returns that result."""

        async def run(ctx: ToolContext, **values: Any) -> Any:
            row = self._calls.get(ctx.tool_call_id)
            if row is not None and row["metadata_json"] == FORKED:
                return await self._result(ctx)
            result = handler(ctx, **values)
            return await result if inspect.isawaitable(result) else result

        return run

    async def _permission(self, ctx: ToolContext, _args: Any) -> ToolPermission:
        return ToolPermission.CONFIRM if ctx.tool_call_id in self._confirmed else ToolPermission.AUTO

    async def _result(self, ctx: ToolContext, **_values: Any) -> ToolResult:
        row = self._calls.get(ctx.tool_call_id)
        if row is None or row["completed_at"] is None:
            raise ToolError("This call is not recorded.")
        metadata = orjson.loads(row["metadata_json"] or "{}")
        if row["error_type"]:
            metadata["error_type"] = row["error_type"]
        result = ToolResult(bool(row["success"]), row["result"] or "", row["error_message"], metadata)
        request = next((each for each in self._requests.values() if each["tool_call_id"] == ctx.tool_call_id), None)
        state = None if request is None else RequestState(request["request_id"], parse_decision(request))
        note = with_decision_note(ToolResult(success=result.success, error=""), state)  # the engine adds the note again
        error = result.error and result.error.removesuffix(note.error or "")
        return replace(result, data=result.data.removesuffix(note.data), error=error)

    # --- edits by hand -----------------------------------------------------------------------------------------------

    def _write_before(self, db: sqlite3.Connection) -> None:
        """Write the edits by hand before the first run, with their conversations."""
        edits = [row for row in self._rows["artifact_versions"] if row["run_id"] is None and row["message_id"] is None]
        for row in self._rows["conversations"]:
            if row["conversation_id"] in {edit["conversation_id"] for edit in edits}:
                insert(db, "conversations", {**row, "active_message_id": None})
        for row in edits:
            insert(db, "artifact_versions", row)

    def _leave_out_versions(self, db: sqlite3.Connection, *, run_id: str) -> None:
        """Reserve the version numbers that other branches used before a run: they are not in the recording."""
        first: dict[tuple[str, str], int] = {}
        for row in self._rows["artifact_versions"]:
            if row["run_id"] == run_id:
                key = row["conversation_id"], row["artifact_id"]
                first[key] = min(row["version"], first.get(key, row["version"]))
        for key, version in first.items():
            db.execute("INSERT OR REPLACE INTO deleted_versions VALUES (?, ?, ?)", (*key, version - 1))

    def _write_by_hand(self, db: sqlite3.Connection, *, message_id: str) -> None:
        """Write the edits by hand on a message."""
        for row in self._rows["artifact_versions"]:
            if row["run_id"] is None and row["message_id"] == message_id:
                insert(db, "artifact_versions", row, or_ignore=True)

    # --- comparison --------------------------------------------------------------------------------------------------

    def _differences(self, store: Path) -> Iterator[str]:
        with closing(connect(store, read_only=True)) as db:
            stored = [row["run_id"] for row in db.execute("SELECT run_id FROM runs ORDER BY rowid")]
            for row in self._rows["runs"]:
                if row["run_id"] in self._graphs:
                    continue
                if row["run_id"] not in stored:
                    yield f"{row['run_id']}: it was not started"
                    continue
                now = load_run_rows(db, row["run_id"]).of_run(row["run_id"])
                yield from _compared(self._rows.of_run(row["run_id"]), now)
            recorded = {row["run_id"] for row in self._rows["runs"]}
            for run_id in stored:
                if run_id not in recorded:
                    question = load_run(db, run_id).question
                    yield f"{run_id}: it was started with the question {_short(question)}, and is not recorded"


async def _no_server(offer: McpToolOffer, _arguments: Mapping[str, Any]) -> ToolResult:
    raise ToolError(f"This run is verified, and no call goes to the MCP server {offer.server}.")


def _write_skills(folder: Path, texts: Mapping[str, str]) -> None:
    """Replace the shared skills of the run before by those of a recorded run."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.md"):
        path.unlink()
    for number, text in enumerate(texts.values()):
        (folder / f"{number}.md").write_text(text, encoding="utf-8")


def _compared(recorded: RunRows, now: RunRows) -> Iterator[str]:
    run = recorded.run_id
    for name, before, after in (
        ("status", recorded.run["status"], now.run["status"]),
        ("error", recorded.run["error_message"], now.run["error_message"]),
        ("answer", recorded.message["response"], now.message["response"]),
    ):
        if not _is_same(before or "", after or ""):
            yield f"{run}, {name}: {_short(before)} became {_short(after)}"
    mine, other = ({step.place: step for step in steps_of(rows)} for rows in (recorded, now))
    for place in dict.fromkeys([*mine, *other]):
        before, after = mine.get(place), other.get(place)
        kind, path, step, position = place
        where = f"{run}, {kind} of step {step} of {path}" + ("" if position is None else f", call {position + 1}")
        if before is None or after is None:
            yield f"{where}: {'new' if before is None else 'missing'}"
        elif not _is_same(before.outcome, after.outcome) and not _was_redacted(before) and not _was_redacted(after):
            yield f"{where}: {_short(before.outcome)} became {_short(after.outcome)}"
    versions = [
        {(row["artifact_id"], row["version"]): str(row["content"]) for row in rows["artifact_versions"]}
        for rows in (recorded, now)
    ]
    yield from _artifacts(run, *versions)


def _is_same(recorded: str, now: str) -> bool:
    """True if two texts differ only in secrets, which may be known on one of the two machines only."""
    return is_same_text(recorded, now) or is_same_text(now, recorded)


def _was_redacted(step: Step) -> bool:
    """True if a tool was called with a secret, whose length its result may contain."""
    return step.kind == "tool" and MASK in step.row["args_json"]


def _artifacts(run: str, mine: Mapping[tuple[str, int], str], other: Mapping[tuple[str, int], str]) -> Iterator[str]:
    for key in sorted({*mine, *other}):
        before, after = mine.get(key), other.get(key)
        if before is None or after is None or not _is_same(before, after):
            yield f"{run}, artifact {key[0]} v{key[1]}: {_short(before)} became {_short(after)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}... ({len(text):,} characters)"
