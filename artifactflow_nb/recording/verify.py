"""Verification: a recorded run is executed again, with its recorded model, tools and decisions, and compared.

An ordinary engine gets the recording through public protocols. Requests, results and artifacts are compared by their
places in the jobs of the run. A changed prompt is reported with the difference.
"""

import asyncio
import inspect
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from artifactflow_nb.agents.base import AgentLike, BaseAgent, as_agent
from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.agents.reviewer import Reviewer
from artifactflow_nb.core.approvals import ApprovalRequest, Decision
from artifactflow_nb.core.budget import Price
from artifactflow_nb.core.events import PARALLEL_SEPARATOR
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.plan import DELEGATING_TOOLS
from artifactflow_nb.core.redaction.names import MASK
from artifactflow_nb.core.redaction.redactor import is_same_text
from artifactflow_nb.core.runs import (
    CLARIFY_SETTING,
    DEPTH_SETTING,
    GRAPH_SETTING,
    REVIEWER_SETTING,
    SEARCH_SCOPE_SETTING,
    WORK_SETTING,
    ParentCall,
)
from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, Code, Details
from artifactflow_nb.core.text.format import count
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.engine.plugin import Plugin
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import ToolError, UsageError, brief
from artifactflow_nb.flows.base import FlowSpec
from artifactflow_nb.flows.tool_call import with_decision_note
from artifactflow_nb.recording.fork import FORKED
from artifactflow_nb.recording.recorded_model import RecordedClock, RecordedIds, RecordedModel, RecordedPrice
from artifactflow_nb.recording.rows import Row, RunRows, load_run_rows, upsert
from artifactflow_nb.recording.steps import steps_of
from artifactflow_nb.store.approvals import RequestState, parse_decision
from artifactflow_nb.store.database import connect
from artifactflow_nb.store.encoding import insert
from artifactflow_nb.store.runs import CANCELLED, WAITING, StoredRun, load_run
from artifactflow_nb.store.schema import from_microseconds
from artifactflow_nb.tools.base import Tool, ToolContext, ToolPermission, placeholder_tool
from artifactflow_nb.tools.mcp.offers import McpToolOffer, offers_from_json, tool_from_offer

_MOST_SHOWN = 20
_MOST_PAUSES = 1_000


@dataclass(frozen=True, slots=True, repr=False)
class VerificationReport(CardMixin):
    """The result of executing a recorded run again.

    Attributes:
        differences: Replies, calls, results, decisions, artifacts and answers that differ.
        prompts: Differences between the prompts, caused by other prompt files, tools or releases.
        skipped: The runs of adapted graphs, which are not executed again, because the work of the nodes is unknown.
    """

    run_id: str
    differences: tuple[str, ...]
    prompts: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether nothing differs but prompts."""
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
    agents: Iterable[AgentLike] = (),
    flows: Sequence[FlowSpec] = (),
    plugins: Sequence[Plugin] = (),
    prompts: Path | None = None,
) -> VerificationReport:
    """Execute the runs of a recording again and compare the results.

    Args:
        rows: The recording; earlier runs of the branch are executed too.
        tools: The user's tools, whose descriptions are compared; the results are recorded.
        offers: The user's tools, each with the name of the agent that gets the tool, in order.
        agents: The agents that are not built in.
        flows: The flows that are not built in.
        plugins: The plugins that are not built in.
        prompts: The folder with the user's prompts.

    Errors: `UsageError` if an agent or a flow is missing.
    """
    verifier = _Verifier(rows, list(tools), list(offers), list(map(as_agent, agents)))
    with tempfile.TemporaryDirectory(prefix="artifactflow-") as folder, ThreadPoolExecutor(1) as pool:
        # The verifier runs in another thread, because the caller's thread may have a running loop.
        changes = pool.submit(asyncio.run, verifier.run(Path(folder), prompts, flows, plugins)).result()
    return VerificationReport(rows.run_id, tuple(changes), tuple(verifier.model.differences), tuple(verifier.skipped))


class _VerifyingEngine(Engine):
    """An engine that indexes no sources, because search results and pages are recorded."""

    def search_scope(self) -> str:
        """Return the scope of the recorded run."""
        return str((self.recorded_settings or {}).get(SEARCH_SCOPE_SETTING, ""))

    async def sources_of_a_run(self) -> list[str]:
        return []


class _Verifier:
    """Executes the runs of a recording again."""

    def __init__(
        self, rows: RunRows, tools: list[Tool], offers: list[tuple[str, Tool]], agents: list[BaseAgent]
    ) -> None:
        self._graphs = {row["run_id"] for row in rows["runs"] if GRAPH_SETTING in orjson.loads(row["settings_json"])}
        # Model calls by a tool belong to the recorded result of the tool, and are not repeated.
        turns = (r for r in rows["llm_calls"] if r["run_id"] in self._graphs or PARALLEL_SEPARATOR not in r["job_id"])
        self._rows = rows = RunRows(rows.run_id, {**rows.tables, "llm_calls": tuple(turns)})
        self._offers = offers
        self._tools = tools
        self._agents = agents
        self._calls = {row["tool_call_id"]: row for row in rows["tool_calls"]}
        self._requests = {row["request_id"]: row for row in rows["approvals"]}
        self._confirmed = {row["tool_call_id"] for row in rows["approvals"]}
        self.model = RecordedModel(rows, self._graphs)
        self.skipped: list[str] = []

    async def run(
        self, folder: Path, prompts: Path | None, flows: Sequence[FlowSpec], plugins: Sequence[Plugin]
    ) -> list[str]:
        """Execute all runs and return the differences."""
        run = self._rows.run
        settings = orjson.loads(run["settings_json"])
        config = {name: settings[name] for name in ("graph_config",) if name in settings}
        first = min(row["started_at"] for row in self._rows["runs"])
        library, missing = PromptLibrary(prompts), []
        own = [agent.config for agent in self._agents if not agent.has_own_prompt]
        for agent_config in (*own, *(agent.config for flow in flows for agent in flow.agents)):
            try:
                library.check(agent_config.prompt_source)
            except UsageError:
                missing.append(agent_config.prompt_name)
        if missing:  # stand-ins are reported as differences
            user_prompts, prompts = prompts, folder / "prompts"
            prompts.mkdir()
            for path in () if user_prompts is None else user_prompts.glob("*.md"):
                shutil.copy(path, prompts)
            for name in missing:
                (prompts / f"{name}.md").write_text("This prompt is missing.\n", encoding="utf-8")
        ids = RecordedIds(self._rows)
        engine = _VerifyingEngine(
            Settings.model_construct(data_dir=folder, prices=self._prices(), **config),
            model=self.model,
            approvals=self._policy,
            reviewer=self._reviewer(),
            prompts=prompts,
            clock=RecordedClock(from_microseconds(first)),
            ids=ids,
            flows=flows,
            plugins=plugins,
        )
        for agent in self._agents:
            if not isinstance(agent.config.model, str | None):  # the recording replies
                agent = copy(agent)  # noqa: PLW2901
                agent.config = replace(agent.config, model=None)
            engine.register_agent(agent)
        self._register(engine)
        async with engine:
            await engine.database.write(partial(self._write_edits, message_id=None))
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
                await engine.database.write(partial(self._write_edits, message_id=row["message_id"]))
        return list(self._differences(folder / STORE_FILE))

    def _prices(self) -> dict[str, Price]:
        """Return the recorded price for every model."""
        names = {row["request_model"] for row in self._rows["llm_calls"]} | {self.model.default_model}
        names |= {agent.config.model for agent in self._agents if agent.config.model is not None}
        for row in self._rows["runs"]:
            settings = orjson.loads(row["settings_json"])
            agents = (settings.get("graph_config") or {}).values()
            names |= {settings.get("model"), *(agent.get("model") for agent in agents if isinstance(agent, dict))}
        return {name: RecordedPrice(input=0, output=0) for name in names if isinstance(name, str)}

    # --- execution ---------------------------------------------------------------------------------------------------

    async def _execute(self, engine: _VerifyingEngine, row: Row) -> None:
        """Ask a question again and apply the recorded decisions."""
        run = await self._begin(engine, row)
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

    async def _begin(self, engine: _VerifyingEngine, row: Row) -> StoredRun:
        """Store a run with the question, position and settings of a recorded run."""
        settings = orjson.loads(row["settings_json"])
        message = next(each for each in self._rows["messages"] if each["message_id"] == row["message_id"])
        conversations = await engine.conversations.list_conversations(limit=1_000)
        exists = row["conversation_id"] in {conversation.conversation_id for conversation in conversations}
        engine.recorded_settings = settings
        run = await engine.controller.begin(
            row["question"],
            conversation_id=row["conversation_id"] if exists else None,
            parent_message_id=message["parent_id"],
            flow=row["flow"],
            budget=settings.get("budget"),
            model=settings.get("model"),
            depth=settings.get(DEPTH_SETTING, "standard"),
            clarify=settings.get(CLARIFY_SETTING, "never"),
            work=settings.get(WORK_SETTING),
            parent_call=ParentCall.from_settings(settings),
        )
        await engine.database.write(partial(self._leave_out_versions, run_id=row["run_id"]))
        return run

    async def _decide(self, engine: Engine, run_id: str) -> bool:
        """Apply the recorded decisions to open requests; return whether there was a decision."""
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

    def _reviewer(self) -> Reviewer | None:
        """Return the reviewer of the recorded runs, with the recorded rules; None if the runs had no reviewer."""
        settings = [orjson.loads(row["settings_json"]) for row in self._rows["runs"]]
        rules = next((each[REVIEWER_SETTING] for each in settings if REVIEWER_SETTING in each), None)
        return None if rules is None else Reviewer(rules=rules)

    def _policy(self, request: ApprovalRequest) -> str:
        """Return the recorded verdict of the policy; `ask` if a person decided, and for new requests."""
        row = self._requests.get(request.id)
        if row is None or not row["settled"] or row["decision"] is None:
            return "ask"
        return "approve" if row["decision"] in {"approved", "edited"} else "deny"

    # --- tools -------------------------------------------------------------------------------------------------------

    def _register(self, engine: Engine) -> None:
        """Give each agent the tools that the agent used; all tools return recorded results."""
        own_tools = {tool.name: tool for tool in self._tools}
        for agent, tool in self._offers:
            engine.register_tool(tool, agent=agent)
        servers = orjson.loads(self._rows.run["manifest_json"]).get("mcp")
        for offer in offers_from_json(servers) if servers else ():
            tool = tool_from_offer(offer, _no_server)
            for agent in offer.agents:
                engine.register_tool(tool, agent=agent)
        for row in self._rows["runs"]:
            if row["run_id"] not in self._graphs and row["flow"] not in engine.flows:
                raise UsageError(f"The run has the flow {row['flow']!r}, which is not built in. Pass flows=[...].")
        tool_names = {entry.name for entry in engine.tools}
        for row in self._rows["llm_calls"]:
            if row["run_id"] not in self._graphs and (agent := row["agent_name"]) not in engine.agents:
                raise UsageError(f"The run used the agent {agent!r}, which is not built in. Pass agents=[...].")
        for row in self._rows["tool_calls"]:
            name, agent = row["tool_name"], row["agent_name"]
            if row["run_id"] in self._graphs:
                continue
            if (name in tool_names and name not in own_tools) or not name.isidentifier():
                continue
            entry = own_tools.setdefault(name, placeholder_tool(name, ToolPermission.AUTO))
            if name not in engine.agents[agent].tool_names:
                engine.register_tool(entry, agent=agent)
        before = list(engine.tools)
        engine.tools.replace_tools(before, [self._recorded(entry) for entry in before])

    def _recorded(self, entry: Tool) -> Tool:
        """Return a tool with recorded results; return a tool of the store or the flow unchanged.

        A result that a fork has replaced is always returned.
        """
        stand_ins = {row["tool_name"] for row in self._rows["tool_calls"]} - set(DELEGATING_TOOLS)
        is_live = entry.uses_store_only or (entry.handler is None and entry.name not in stand_ins)
        live = entry.handler

        async def run(ctx: ToolContext, **values: Any) -> Any:
            row = self._calls.get(ctx.tool_call_id)
            if live is None or not is_live or (row is not None and row["metadata_json"] == FORKED):
                return await self._result(ctx)
            result = live(ctx, **values)
            return await result if inspect.isawaitable(result) else result

        return replace(entry, permission=self._permission, handler=None if is_live and live is None else run)

    async def _permission(self, ctx: ToolContext, _args: Any) -> ToolPermission:
        return ToolPermission.CONFIRM if ctx.tool_call_id in self._confirmed else ToolPermission.AUTO

    async def _result(self, ctx: ToolContext, **_values: Any) -> ToolResult:
        row = self._calls.get(ctx.tool_call_id)
        if row is None or row["completed_at"] is None:
            raise ToolError(f"The call {ctx.tool_call_id} is not recorded and has no result in a verification.")
        metadata = orjson.loads(row["metadata_json"] or "{}")
        if row["error_type"]:
            metadata["error_type"] = row["error_type"]
        result = ToolResult(bool(row["success"]), row["result"] or "", row["error_message"], metadata)
        request = next((each for each in self._requests.values() if each["tool_call_id"] == ctx.tool_call_id), None)
        state = None if request is None else RequestState(request["request_id"], parse_decision(request))
        note = with_decision_note(ToolResult(success=result.success, error=""), state)  # the engine adds the note again
        error = result.error and result.error.removesuffix(note.error or "")
        return replace(result, data=result.data.removesuffix(note.data), error=error)

    # --- manual edits ------------------------------------------------------------------------------------------------

    def _write_edits(self, db: sqlite3.Connection, *, message_id: str | None) -> None:
        """Write the manual edits on a message; for None, the edits before the first run, with conversations."""
        versions = self._rows["artifact_versions"]
        edits = [row for row in versions if row["run_id"] is None and row["message_id"] == message_id]
        edited = {row["conversation_id"] for row in edits if message_id is None}
        for row in self._rows["conversations"]:
            if row["conversation_id"] in edited:
                insert(db, "conversations", {**row, "active_message_id": None})
        for row in edits:
            insert(db, "artifact_versions", row, or_ignore=True)

    def _leave_out_versions(self, db: sqlite3.Connection, *, run_id: str) -> None:
        """Reserve version numbers that other branches, which are not recorded, used before a run."""
        first: dict[tuple[str, str], int] = {}
        for row in self._rows["artifact_versions"]:
            if row["run_id"] == run_id:
                key = row["conversation_id"], row["artifact_id"]
                first[key] = min(row["version"], first.get(key, row["version"]))
        for key, version in first.items():
            db.execute("INSERT OR REPLACE INTO deleted_versions VALUES (?, ?, ?)", (*key, version - 1))

    # --- comparison --------------------------------------------------------------------------------------------------

    def _differences(self, store: Path) -> Iterator[str]:
        recorded = [row["run_id"] for row in self._rows["runs"]]
        with closing(connect(store, read_only=True)) as db:
            stored = [row["run_id"] for row in db.execute("SELECT run_id FROM runs ORDER BY rowid")]
            for run_id in recorded:
                if run_id in self._graphs:
                    continue
                if run_id not in stored:
                    yield f"{run_id}: the run was not started"
                else:
                    yield from _compared(self._rows.of_run(run_id), load_run_rows(db, run_id).of_run(run_id))
            for run_id in stored:
                if run_id not in recorded:
                    question = load_run(db, run_id).question
                    yield f"{run_id}: the run was started with the question {brief(question)}, and is not recorded"


async def _no_server(offer: McpToolOffer, *_call: object) -> ToolResult:
    raise ToolError(f"This run is being verified, so the MCP server is not called: {offer.server}.")


def _compared(recorded: RunRows, now: RunRows) -> Iterator[str]:
    run = recorded.run_id
    for name, before, after in (
        ("status", recorded.run["status"], now.run["status"]),
        ("error", recorded.run["error_message"], now.run["error_message"]),
        ("answer", recorded.message["response"], now.message["response"]),
    ):
        if not _is_same(before or "", after or ""):
            yield f"{run}, {name}: {brief(before)} became {brief(after)}"
    mine, other = ({step.place: step for step in steps_of(rows)} for rows in (recorded, now))
    for place in dict.fromkeys([*mine, *other]):
        before, after = mine.get(place), other.get(place)
        kind, path, step, position = place
        where = f"{run}, {kind} of step {step} of {path}" + ("" if position is None else f", call {position + 1}")
        if before is None or after is None:
            yield f"{where}: {'new' if before is None else 'missing'}"
        elif not _is_same(before.outcome, after.outcome) and not any(
            step.kind == "tool" and MASK in step.row["args_json"] for step in (before, after)
        ):  # the length of a secret in a call may be part of its result
            yield f"{where}: {brief(before.outcome)} became {brief(after.outcome)}"
    versions = [
        {(row["artifact_id"], row["version"]): str(row["content"]) for row in rows["artifact_versions"]}
        for rows in (recorded, now)
    ]
    for artifact_id, version in sorted({*versions[0], *versions[1]}):
        before, after = (contents.get((artifact_id, version)) for contents in versions)
        if before is None or after is None or not _is_same(before, after):
            yield f"{run}, artifact {artifact_id} v{version}: {brief(before)} became {brief(after)}"


def _is_same(recorded: str, now: str) -> bool:
    """Return whether two texts differ only in secrets, since one of the two machines may not know a secret."""
    return is_same_text(recorded, now) or is_same_text(now, recorded)
