"""A controller that plays recorded runs and records live runs."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Unpack

import orjson

from artifactflow_nb import __version__
from artifactflow_nb.core.approvals import ApprovalRequest, Decision
from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.clock_ids import whole_ms
from artifactflow_nb.core.runs import DEPTH_SETTING, GRAPH_SETTING, PARENT_CALL_SETTING, VARIATION_SETTING, WORK_SETTING
from artifactflow_nb.engine.controller import ExecutionController, RunOptions
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.flow_registry import DEFAULT_FLOW
from artifactflow_nb.errors import CassetteError, CassetteMiss, Conflict, StoreError, UsageError
from artifactflow_nb.recording.fork import Change, NewRunIds, write_fork
from artifactflow_nb.recording.identity import Ask, is_same_decision, miss_of_decision
from artifactflow_nb.recording.modes import PLAYED, CassetteSession
from artifactflow_nb.recording.playback import Playback
from artifactflow_nb.recording.report import manifest_changes, notice
from artifactflow_nb.recording.rows import ENDED, RunRows, load_branch_rows, load_run_rows
from artifactflow_nb.recording.verify import VerificationReport
from artifactflow_nb.store.conversations import ParentId, ParentSelector, resolve_parent
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.store.runs import RUNNING, WAITING, NewRun, StoredRun, run_exists
from artifactflow_nb.store.schema import from_microseconds, to_microseconds

logger = logging.getLogger(__name__)


class RecordingController(ExecutionController):
    """Plays recorded runs; executes and records all other runs.

    `default_budget` applies to runs without a budget; `verify` executes a recording again after its playback.

    Attributes:
        changes: Changes since played runs were recorded, by run id.
    """

    def __init__(
        self,
        engine: Engine,
        session: CassetteSession,
        *,
        default_budget: Budget | None = None,
        verify: Callable[[RunRows], VerificationReport] | None = None,
    ) -> None:
        super().__init__(engine, self._record)
        self.session = session
        self._one_by_one = asyncio.Lock()
        self._problems: dict[str, str] = {}
        self._default_budget = default_budget
        self._verify = verify
        self.changes: dict[str, tuple[str, ...]] = {}
        self._playbacks: dict[str, Playback] = {}
        self._self_cancelled: set[str] = set()

    # --- questions ---------------------------------------------------------------------------------------------------

    async def begin(self, content: str, **options: Unpack[RunOptions]) -> StoredRun:
        """Store a question as a message with its run, from a recording of the question if there is one."""
        live = partial(super().begin, content, **options)
        question = content.encode("utf-8", "replace").decode().strip()
        if options.get("parent_call") is not None or self.session.mode == "live" or not question:
            return await live()  # a subrun is recorded and played with its parent run
        flow, model, work = options.get("flow", DEFAULT_FLOW), options.get("model"), options.get("work")
        self._engine.flows.require(flow)
        budget, conversation_id = options.get("budget"), options.get("conversation_id")
        limits = self._default_budget if budget is None else Budget.from_limits(budget)
        settings = dict(self._engine.flows.graph_settings(flow, model))
        settings |= {} if limits is None else {"budget": limits.model_dump(exclude_none=True)}
        settings |= {} if model is None else {"model": model}
        settings |= {DEPTH_SETTING: depth} if (depth := options.get("depth", "standard")) != "standard" else {}
        settings |= {} if work is None else {WORK_SETTING: dict(work)}
        settings |= {VARIATION_SETTING: changes} if (changes := options.get("variation")) else {}
        async with self._one_by_one:
            parent = await self._parent(conversation_id, options.get("parent_message_id", ParentSelector.ACTIVE))
            return await self._play_or(live, Ask(question, flow, settings, "", parent), conversation_id)

    async def _play_or(
        self, live: Callable[[], Awaitable[StoredRun]], ask: Ask, conversation_id: str | None
    ) -> StoredRun:
        """Start the playback of a question's recording; without a recording, start the run live.

        A log line lists the changes since the recording. One question is handled at a time.
        """
        recording = await asyncio.to_thread(self.session.find, ask, conversation_id)
        if recording is None:
            run = await live()
            self.session.add_question(replace(ask, settings=run.settings, message_id=run.message_id), run.run_id)
            return run
        ask, rows = recording
        recorded = rows.run
        if await self._engine.database.read(lambda db: run_exists(db, recorded["run_id"])):
            raise Conflict(
                f"The store {self._engine.database.path} holds the run {recorded['run_id']} already, and a replay "
                "uses the same id. Remove data_dir, so that the replay has a store of its own."
            )
        owner = self._engine.run_locks.acquire()
        try:
            run = await self._services.runs.create(
                NewRun(
                    run_id=recorded["run_id"],
                    conversation_id=conversation_id,
                    message_id=recorded["message_id"],
                    thread_id=recorded["thread_id"],
                    parent=ask.parent_message_id,
                    question=recorded["question"],
                    flow=recorded["flow"],
                    owner=owner,
                    package_version=recorded["package_version"],
                    started_at=from_microseconds(recorded["started_at"]),
                    settings=orjson.loads(recorded["settings_json"]),
                    mode=self.session.mode,
                    manifest=orjson.loads(recorded["manifest_json"]),
                ),
                recorded["conversation_id"],
            )
        except BaseException:
            self._engine.run_locks.release(owner)
            raise
        feeds = self.scheduler.feeds
        run_ids = [row["run_id"] for row in rows["runs"]]
        playback = Playback(rows, self._engine.database, feeds, self.session.mode, owner)
        self._playbacks |= dict.fromkeys(run_ids, playback)
        feeds.local_runs.update(run_ids)
        self.session.add_playback(run.run_id)
        self.started.append(run.run_id)
        await feeds.get(run.run_id)
        manifest = await self._engine.manifest(ask.flow, ask.settings.get("model"))
        agents = {row["agent_name"] for row in rows["llm_calls"]}
        changes = manifest_changes(orjson.loads(recorded["manifest_json"]), manifest, agents)
        self.changes[run.run_id] = tuple(changes)
        if changes:
            logger.warning("%s", notice(run.run_id, changes))
        self.session.add_question(replace(ask, message_id=run.message_id), run.run_id)
        return run

    async def _parent(self, conversation_id: str | None, parent: ParentId) -> str | None:
        if conversation_id is None:
            return None
        return await self._engine.database.read(lambda db: resolve_parent(db, conversation_id, parent))

    async def fork(self, change: Change) -> StoredRun:
        """Store a fork: the rows of a run before a step, with a change; `start` resumes the fork.

        Errors: `UsageError` for an adapted graph: only the graph knows the work within its nodes.
        """
        forked = await self._services.runs.get(change.of)
        if GRAPH_SETTING in forked.settings:
            raise UsageError(
                f"The flow {forked.flow!r} is your own graph, which cannot be forked at a step, because the work "
                "within the nodes is unknown. Ask again."
            )
        message = await self._services.conversations.message(forked.message_id)
        secrets = self._services.secrets.current
        change = replace(
            change,
            prompt=None if change.prompt is None else secrets.text(change.prompt),
            tool_result=None if change.tool_result is None else secrets.text(change.tool_result),
            decision=secrets.value(change.decision),
        )
        settings = {**forked.settings, "fork": change.as_json()}
        settings |= {} if change.model is None else {"model": change.model}
        settings.pop(PARENT_CALL_SETTING, None)  # no run waits for a fork of a subrun
        budget, model = settings.get("budget"), settings.get("model")
        limits = None if budget is None else Budget.from_limits(budget)

        async def live() -> StoredRun:
            if change.model is None:
                await self._keep_models(forked)
            # `build` refuses a missing flow or model; the other settings are copied from the run.
            await self._engine.run_config.build(forked.flow, limits, model, "standard", None)
            ids, now = self._services.ids, to_microseconds(whole_ms(self._services.clock.now()))
            new = NewRunIds(ids.new("run"), ids.new("msg"), ids.new("thd"), now)
            columns = {
                "settings_json": orjson.dumps(settings, option=orjson.OPT_SORT_KEYS).decode(),
                "manifest_json": to_json(await self._engine.manifest(forked.flow, model)),
                "mode": self.session.mode,
                "package_version": __version__,
            }
            await self._engine.database.write(
                lambda db: write_fork(db, load_run_rows(db, change.of), change, new, columns)
            )
            self.started.append(new.run_id)
            return await self._services.runs.get(new.run_id)

        if self.session.mode == "live":
            return await live()
        async with self._one_by_one:
            ask = Ask(forked.question, forked.flow, settings, "", message.parent_id)
            return await self._play_or(live, ask, forked.conversation_id)

    async def start(self, run: StoredRun) -> "asyncio.Task[None]":
        """Continue a run; a played run continues until the next decision that code must make."""
        playback = self._playbacks.get(run.run_id)
        if playback is None:
            self._check_not_played_elsewhere(run)
            return await super().start(run)
        if playback.task is None or (playback.task.done() and playback.cut is None and not playback.is_closed):
            self._play(playback)
        assert playback.task is not None  # noqa: S101 - for the checker
        return playback.task

    def _check_not_played_elsewhere(self, run: StoredRun) -> None:
        """Raise an error for a run of a graph that another workbench played: this workbench would restart the graph."""
        if run.mode in PLAYED and GRAPH_SETTING in run.settings and run.status in {RUNNING, WAITING}:
            raise UsageError(
                f"The run {run.run_id} was played from a cassette by another workbench, which must continue it. "
                "Ask again in a workbench with replay=."
            )

    def _play(self, playback: Playback) -> None:
        """Play the next segment in a task, for which `join` waits."""
        playback.task = asyncio.create_task(self._segment(playback), name=playback.rows.run_id)

    async def _segment(self, playback: Playback) -> None:
        try:
            await playback.play()
            if playback.has_ended and self._verify is not None:
                branch = partial(load_branch_rows, run_id=playback.rows.run_id)
                report = await asyncio.to_thread(self._verify, await self._engine.database.read(branch))
                if not report.is_same or report.prompts:
                    self._problems[report.run_id] = "\n".join([repr(report), *report.differences, *report.prompts])
        except Exception as error:
            self._problems[playback.rows.run_id] = str(error)
            self._release(playback)
            raise
        if playback.has_ended:
            self._release(playback)

    def _release(self, playback: Playback) -> None:
        """End a playback; from now on the played runs are ordinary runs of the store."""
        for row in playback.rows["runs"]:
            run_id = row["run_id"]
            self._playbacks.pop(run_id, None)
            self.scheduler.feeds.local_runs.discard(run_id)
            self.scheduler.feeds.drop_ended(run_id)
        if playback.has_ended:
            self._self_cancelled |= playback.cancelled_at_work
        self._engine.run_locks.release(playback.owner)

    async def resume_if_ready(self, run: StoredRun) -> bool:
        """Start a run that can continue; a playback continues without this call."""
        if run.run_id in self._playbacks:
            return False
        self._check_not_played_elsewhere(run)
        return await super().resume_if_ready(run)

    # --- decisions ---------------------------------------------------------------------------------------------------

    async def _is_played(
        self, run: StoredRun, decisions: Mapping[str, Decision], *, is_started_later: bool = False
    ) -> bool:
        """Return whether the run is played and goes on: decisions on a played run must equal the recorded decisions.

        Errors: `CassetteMiss` if a decision differs and the run cannot continue live; nothing is decided then. In the
        mode `auto` the run continues live.
        """
        playback = self._playbacks.get(run.run_id)
        if playback is None:
            self._check_not_played_elsewhere(run)
            return False
        async with playback.lock:
            if not await self._accept_recorded(playback, decisions, run.run_id if is_started_later else None):
                return False
            if playback.cut is None and not is_started_later:  # else the caller listens to the run first
                self._play(playback)
            return True

    async def _accept_recorded(self, playback: Playback, decisions: Mapping[str, Decision], run_id: str | None) -> bool:
        """Accept decisions on a played run if all decisions equal the recorded decisions.

        The caller holds the lock of the playback. With `run_id`, the requests must belong to this run.

        Returns: False if the run has ended or continues live, so that the caller must store the decisions.
        """
        await playback.settled()
        approvals, different = self._services.approvals, list[tuple[ApprovalRequest, Decision]]()
        for request_id in decisions:
            await approvals.require_undecided(request_id, run_id)
        if playback.rows.run_id not in self._playbacks:  # the playback has ended meanwhile
            return False
        accepted = list(decisions)
        for request_id, decision in decisions.items():
            recorded, request = playback.decision(request_id), await approvals.get(request_id)
            if recorded is None or not is_same_decision(recorded, self.session.match_wording(recorded, decision)):
                if self.session.is_strict or playback.is_graph:
                    miss = miss_of_decision(request.title, recorded, decision, is_graph=playback.is_graph)
                    raise CassetteMiss(self.session.redacted_text(miss))
                different.append((request, decision))
            covered = await approvals.open_of_same_tool(request, decision)
            accepted += (other.id for other in covered if playback.decision(other.id))
        if not different:
            await playback.accept(accepted)
            return True
        for request, decision in different:
            run = await self._services.runs.get(request.run_id)
            await self.check_decision(request, run, decision, keeps_models=False)
        manifests = {}
        for run in [await self._services.runs.get(each) for each in playback.run_ids]:
            if run.status in ENDED:
                continue
            try:
                await self._engine.run_config.check_models(run)
            except UsageError as error:  # the run continues with another model than the recorded model
                logger.warning("%s The run continues live.", error)
            manifests[run.run_id] = to_json(await self._engine.manifest(run.flow, run.settings.get("model")))
        await self._take_over(playback, manifests)
        return False

    async def single_request(self, run_id: str) -> ApprovalRequest:
        """Return the request that code decides next; in a playback, the request of the current cut."""
        playback = self._playbacks.get(run_id)
        if playback is not None:
            await playback.settled()
            if (cut := playback.cut) is not None and cut.request_id is not None:
                return await self._services.approvals.get(cut.request_id)
        return await super().single_request(run_id)

    async def cancel(self, run_id: str, *, by_code: bool = True) -> None:
        """Cancel a run; a played run ends as recorded.

        Errors: `CassetteMiss` if the recording has no cancellation here and the played run cannot continue live.
        """
        playback = self._playbacks.get(run_id)
        if playback is not None:
            async with playback.lock:
                await playback.settled()
                cut = playback.cut
                if cut is not None and cut.request_id is None and cut.run_id == run_id:
                    playback.cancel()
                    self._play(playback)
                    await playback.settled()
                    return
                if run_id in self._playbacks:  # the playback has not ended meanwhile
                    if self.session.is_strict or playback.is_graph:
                        recorded = None if cut is None or cut.request_id is None else playback.decision(cut.request_id)
                        raise CassetteMiss(miss_of_decision(f"The run {run_id}", recorded, "it was cancelled"))
                    await self._take_over(playback)
        if run_id in self._self_cancelled:
            self._self_cancelled.discard(run_id)
            return
        await super().cancel(run_id, by_code=by_code)
        await self._after_decision(run_id)

    async def _take_over(self, playback: Playback, manifests: Mapping[str, str] = MappingProxyType({})) -> None:
        """Continue the runs of a playback live from the current position, with new manifests."""
        self._release(playback)
        self.session.continue_live(playback.rows.run)
        await self._engine.database.write(partial(playback.take_over, manifests=manifests))

    # --- recording ---------------------------------------------------------------------------------------------------

    async def join(self, run_id: str) -> None:
        """Wait like `RunScheduler.join`; `CassetteError` if the run could not be recorded or verified."""
        playback = self._playbacks.get(run_id)
        while playback is not None and playback.task is not None and not playback.task.done():
            await asyncio.wait([playback.task])
        await super().join(run_id)
        if (problem := self._problems.get(run_id)) is not None:
            raise CassetteError(problem)

    async def _after_decision(self, run_id: str) -> None:
        """Record a decision on a run that still waits for other decisions."""
        if not self.scheduler.is_driving(run_id):
            await self._save(run_id)

    async def _record(self, run_id: str) -> None:
        """Record a run that has ended or waits."""
        self._problems.pop(run_id, None)
        try:
            await self._save(run_id)
        except StoreError as error:
            self._problems[run_id] = str(error)

    async def _save(self, run_id: str) -> None:
        """Write a run that has ended or waits into the cassette; a subrun is written with its parent run."""
        if self.session.writer is None:
            return
        run = await self._services.runs.get(run_id)
        if run.parent_call is not None:
            try:
                run = await self._services.runs.get(run.parent_call.run_id)
            except StoreError:
                return
        if run.status != RUNNING:
            await self.session.save(self._engine.database, run.run_id)

    async def aclose(self) -> None:
        """Stop playing and driving."""
        playing = [playback.task for playback in self._playbacks.values() if playback.task is not None]
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        await super().aclose()
