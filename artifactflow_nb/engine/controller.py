"""The controller: questions, decisions and results of runs.

A question is checked and stored as a message with its run. The scheduler drives every run that can continue: a new run,
a run whose requests are decided, or a run whose process has died. The driver of a run ends the run (see `driver.py`).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from artifactflow_nb import __version__
from artifactflow_nb.core.approvals import BUDGET_KIND, QUESTION_KIND, ApprovalRequest, Decision
from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.clock_ids import whole_ms
from artifactflow_nb.core.events import ExecutionMetrics, StreamEvent
from artifactflow_nb.core.runs import (
    CLARIFY_SETTING,
    DEPTH_SETTING,
    GRAPH_SETTING,
    PARENT_CALL_SETTING,
    SEARCH_SCOPE_SETTING,
    VARIATION_SETTING,
    WORK_SETTING,
    Outcome,
    ParentCall,
)
from artifactflow_nb.engine.driver import RunScheduler
from artifactflow_nb.engine.flow_registry import DEFAULT_FLOW
from artifactflow_nb.engine.subruns import SubrunService
from artifactflow_nb.errors import Conflict, NotFound, StoreError, ToolError, UsageError, brief
from artifactflow_nb.flows.base import FlowQuestion
from artifactflow_nb.flows.events import Listener
from artifactflow_nb.store.approvals import load_open_requests
from artifactflow_nb.store.conversations import ParentId, ParentSelector, resolve_parent
from artifactflow_nb.store.encoding import MAX_DEPTH, is_too_deep, storable_json
from artifactflow_nb.store.metrics import load_metrics
from artifactflow_nb.store.ownership import effective_status
from artifactflow_nb.store.runs import ABANDONED, COMPLETED, WAITING, NewRun, StoredRun, first_event, load_run
from artifactflow_nb.tools.base import ToolContext

if TYPE_CHECKING:
    from sqlite3 import Connection

    from artifactflow_nb.engine.engine import Engine


class RunOptions(TypedDict, total=False):
    """The options of a question, all of them optional.

    Attributes:
        conversation_id: The conversation; None for a new conversation.
        parent_message_id: The message to continue from; None for a new root, omitted for the active branch.
        message_id: The id for the new message; None for a new id.
        thread_id: The id for the run's thread; None for a new id.
        flow: The flow; `DEFAULT_FLOW` by default.
        budget: The limits of the run; None for the configured budget.
        model: The model's name at the endpoint; None for the configured model.
        depth: `quick`, `standard` (the default) or `deep`.
        clarify: `auto`, `never` or `always`; None for the configured value.
        work: The part of a project to write without a conversation: `{"write": [ids of blocks]}`; None for a chat.
        parent_call: The tool call of another run that this run carries out; None for an independent run.
        variation: The changes for this run alone: `seed`, `graph_config`, `prompts` by agent; None for no change.
    """

    conversation_id: str | None
    parent_message_id: ParentId
    message_id: str | None
    thread_id: str | None
    flow: str
    budget: Budget | Mapping[str, Any] | None
    model: str | None
    depth: str
    clarify: str | None
    work: Mapping[str, Any] | None
    parent_call: ParentCall | None
    variation: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run so far.

    Attributes:
        status: `completed`, `failed`, `cancelled`, `waiting`, or `abandoned` for a run that can be resumed.
        response: The answer, or None.
        outcome: How far the answer answers the question: `answered`, `partly` or `not_in_sources`; None if unknown.
        error_type: The type of the error with which the run ended or was abandoned, or None.
        metrics: Time, tokens and cost so far.
    """

    run_id: str
    conversation_id: str
    message_id: str
    thread_id: str
    status: str
    response: str | None
    error_type: str | None
    error_message: str | None
    pending: tuple[ApprovalRequest, ...]
    metrics: ExecutionMetrics
    outcome: Outcome | None = None


class ExecutionController:
    """Runs questions through flows.

    Args:
        engine: The services of the engine.
        after_drive: Awaited with a run's id in the run's task, after the run has ended or started to wait.

    Attributes:
        scheduler: Drives runs.
        subruns: Starts runs for other runs.
        started: The ids of the runs that this controller stored, in order.
    """

    def __init__(self, engine: "Engine", after_drive: Callable[[str], Awaitable[None]] | None = None) -> None:
        if not hasattr(engine, "services"):
            raise UsageError(
                f"A {type(engine).__name__} is no engine. Open an engine, `async with "
                "af.engine.Engine(af.Settings.load()) as engine`, and ask with `engine.controller.execute(question)`."
            )
        self.scheduler = RunScheduler(engine, after_drive)
        self.subruns = SubrunService(engine.services, self.begin, self.scheduler)
        self.started: list[str] = []
        self._engine = engine
        self._services = engine.services

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._engine.folder)!r})"

    # --- questions ---------------------------------------------------------------------------------------------------

    async def begin(
        self,
        content: str,
        *,
        conversation_id: str | None = None,
        parent_message_id: ParentId = ParentSelector.ACTIVE,
        message_id: str | None = None,
        thread_id: str | None = None,
        flow: str = DEFAULT_FLOW,
        budget: Budget | Mapping[str, Any] | None = None,
        model: str | None = None,
        depth: str = "standard",
        clarify: str | None = None,
        work: Mapping[str, Any] | None = None,
        parent_call: ParentCall | None = None,
        variation: Mapping[str, Any] | None = None,
    ) -> StoredRun:
        """Check a question and store it as a message with its run, which `start` then drives.

        `RunOptions` describes the arguments. Known secrets are masked in the question, for the model as well.
        """
        self._services.secrets.refresh()
        question = content.encode("utf-8", "replace").decode().strip()
        if not question:
            raise UsageError("The question is empty. Write what you want to know.")
        pinned = self._engine.flows.require(flow)
        flow_settings: Mapping[str, Any] = {}
        if (spec := self._engine.flows.specs.get(flow)) is not None and spec.check_question is not None:
            parent_id = None
            if conversation_id is not None:
                branch = conversation_id, parent_message_id
                parent_id = await self._engine.database.read(lambda db: resolve_parent(db, *branch))
            new = FlowQuestion(
                question, conversation_id, parent_id, work, self._engine.folder, self._engine.recorded_settings
            )
            flow_settings = await spec.check_question(self._services, new)
        limits = None if budget is None else Budget.from_limits(budget)
        clarify = "never" if parent_call is not None else clarify
        settings = {
            **await self._engine.run_config.build(flow, limits, model, depth, clarify, variation),
            **flow_settings,
        }
        if work is not None:
            settings[WORK_SETTING] = dict(work)
        if parent_call is not None:
            settings[PARENT_CALL_SETTING] = parent_call.as_json()
        sources = await self._engine.sources_of_a_run()
        settings[SEARCH_SCOPE_SETTING] = self._engine.search_scope()
        secrets, ids = self._services.secrets.current, self._services.ids
        owner = self._engine.run_locks.acquire()
        try:
            run = NewRun(
                run_id=ids.new("run"),
                conversation_id=conversation_id,
                message_id=message_id or ids.new("msg"),
                thread_id=thread_id or ids.new("thd"),
                parent=parent_message_id,
                question=secrets.text(question),
                flow=flow,
                owner=owner,
                package_version=__version__,
                started_at=whole_ms(self._services.clock.now()),
                settings={"sources": sources, **secrets.value(settings)},
                mode=self._engine.mode,
                manifest=await self._engine.manifest(flow, settings.get("model")),
            )
            stored = await self._services.runs.create(run, ids.new("conv"))
        except BaseException:
            self._engine.run_locks.release(owner)
            raise
        self.scheduler.feeds.open(stored.run_id, [first_event(stored)])
        self.started.append(stored.run_id)
        self._engine.flows.pin(stored.run_id, pinned)
        return stored

    async def begin_sibling(
        self,
        message_id: str,
        content: str | None = None,
        *,
        budget: Budget | Mapping[str, Any] | None = None,
        model: str | None = None,
    ) -> StoredRun:
        """Store a message's question again, or `content` instead, with the same parent and a new run.

        The new run has the flow, the budget and the model of the run that answered the message, unless passed here.
        """
        message = await self._services.conversations.message(message_id)
        options = RunOptions(
            conversation_id=message.conversation_id, parent_message_id=message.parent_id, budget=budget, model=model
        )
        if message.run_id is not None:
            answer = await self._services.runs.get(message.run_id)
            self._engine.flows.check_available(answer)
            if model is None:
                await self._keep_models(answer, may_be_better=True)
            options["budget"] = budget or answer.settings.get("budget")
            options["model"] = model or answer.settings.get("model")
            options["flow"] = answer.flow
            options["depth"] = answer.settings.get(DEPTH_SETTING, "standard")
            options["clarify"] = answer.settings.get(CLARIFY_SETTING, "never")
            options["work"] = answer.settings.get(WORK_SETTING)
            options["variation"] = answer.settings.get(VARIATION_SETTING)
        return await self.begin(message.content if content is None else content, **options)

    async def _keep_models(self, run: StoredRun, *, may_be_better: bool = False) -> None:
        """Raise `UsageError` with advice if a repetition of `run` would have another model."""
        try:
            await self._engine.run_config.check_models(run, may_be_better=may_be_better)
        except UsageError as error:
            raise UsageError(f"{error} Pass model= with the name of a model that is available here.") from None

    async def flow_of_message(self, message_id: str) -> str:
        """Return the flow of the run that answered a message; the default flow if no run answered the message."""
        run_id = (await self._services.conversations.message(message_id)).run_id
        return DEFAULT_FLOW if run_id is None else (await self._services.runs.get(run_id)).flow

    async def stream_execute(
        self,
        content: str | None = None,
        *,
        resume_data: Mapping[str, bool | Decision] | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncIterator[StreamEvent]:
        """Run a question, or continue a waiting run, and yield the events until the run ends or waits.

        Args:
            content: The question; None to resume the run of `thread_id` or `message_id`.
            resume_data: Decisions by request id, to resume.
            options: The options of a question; to resume a run, only `thread_id` and, as a check, `message_id`.
        """
        seen = 0
        if content is not None:
            run = await self.begin(content, **options)
        else:
            run = await self.decide_all(options.get("thread_id"), options.get("message_id"), resume_data or {})
            seen = (await self.scheduler.feeds.get(run.run_id)).last_seq
        queue: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        stop = await self.subscribe(run.run_id, lambda event: queue.put_nowait(event) if event.seq > seen else None)
        task = await self.start(run)
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            stop()

    async def execute(self, content: str, **options: Unpack[RunOptions]) -> RunResult:
        """Run a question until the run ends or waits."""
        run = await self.begin(content, **options)
        await asyncio.shield(await self.start(run))
        return await self.result(run.run_id)

    async def resume(
        self,
        thread_id: str,
        message_id: str | None = None,
        decisions: Mapping[str, bool | Decision] | None = None,
        *,
        approved: bool | None = None,
    ) -> RunResult:
        """Store decisions, and continue a waiting run until it ends or waits again.

        Args:
            thread_id: The run's thread.
            message_id: The run's message, as a check; None for no check.
            decisions: Decisions by request id.
            approved: The decision on the only open request, instead of `decisions`.
        """
        if approved is not None:
            run = await self._services.runs.get_by_thread(thread_id)
            decisions = {(await self.single_request(run.run_id)).id: approved}
        run = await self.decide_all(thread_id, message_id, decisions or {})
        await asyncio.shield(await self.start(run))
        return await self.result(run.run_id)

    # --- runs --------------------------------------------------------------------------------------------------------

    async def subscribe(self, run_id: str, listener: Listener) -> Callable[[], None]:
        """Call a listener with a run's stored events, then with new events, including events of other processes.

        Returns:
            A function that ends the subscription.
        """
        return await self.scheduler.feeds.subscribe(run_id, listener)

    async def start(self, run: StoredRun) -> "asyncio.Task[None]":
        """Drive a run and return its task; see `RunScheduler.start`."""
        return await self.scheduler.start(run)

    async def resume_if_ready(self, run: StoredRun) -> bool:
        """Start a run whose requests are decided or whose process has died; return whether the run was started."""
        return await self.scheduler.resume_if_ready(run)

    async def join(self, run_id: str) -> None:
        """Return when this process no longer drives the run; see `RunScheduler.join`."""
        await self.scheduler.join(run_id)

    async def cancel(self, run_id: str, *, by_code: bool = True) -> None:
        """End a run and keep its artifacts and the answer text so far; see `RunScheduler.cancel`."""
        await self.scheduler.cancel(run_id, by_code=by_code)

    async def result(self, run_id: str) -> RunResult:
        """Return the result of a run so far."""
        now = self._services.clock.now()

        def work(db: "Connection") -> tuple[StoredRun, list[ApprovalRequest], ExecutionMetrics]:
            run = load_run(db, run_id)
            pending = load_open_requests(db, run_id) if run.completed_at is None else []
            return run, pending, load_metrics(db, run_id, run.completed_at or now)

        run, pending, metrics = await self._engine.database.read(work)
        status = effective_status(self._engine.folder, run.status, run.owner, run.start_lock)
        problem = self.scheduler.storage_problem(run_id) if status == ABANDONED else None
        return RunResult(
            run.run_id,
            run.conversation_id,
            run.message_id,
            run.thread_id,
            status,
            run.response if status == COMPLETED else None,
            run.error_type if problem is None else StoreError.__name__,
            run.error_message if problem is None else problem,
            tuple(pending),
            metrics,
            run.outcome,
        )

    async def aclose(self) -> None:
        """Stop driving. Unfinished runs stay unchanged and can be resumed."""
        await self.scheduler.aclose()

    # --- decisions ---------------------------------------------------------------------------------------------------

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Store a decision at once, and continue the run as soon as possible.

        If other jobs of the run are working, the run continues when the jobs are done. A decision for the run or the
        conversation also decides the other open requests for the same tool in the run or conversation.

        Errors: as for `ApprovalStore.decide`; `UsageError` if the tool is not registered here, or the run's model
            or budget is not available; `StoreError` if the decision could not be stored, or was stored and the run
            could not continue: the message says which.
        """
        decision = self._as_stored(decision)
        request = await self._services.approvals.get(request_id)
        run = await self._services.runs.get(request.run_id)
        if await self._is_played(run, {request_id: decision}):
            return
        await self.check_decision(request, run, decision)
        approvals, now = self._services.approvals, whole_ms(self._services.clock.now())
        with ExitStack() as start_locks:
            self._hold_start_locks(run, start_locks)
            await approvals.decide({request_id: decision}, now)
            same = Decision(
                decision.approved, decided_by=decision.decided_by, scope=decision.scope, by_code=decision.by_code
            )
            of_same_tool = await approvals.open_of_same_tool(request, decision)
            covered = [other for other in of_same_tool if other.allows(same)]
            for other in covered:
                self._hold_start_locks(await self._services.runs.get(other.run_id), start_locks)
                with suppress(Conflict):  # the request was decided concurrently
                    await approvals.decide({other.id: same}, now)
            for run_id in dict.fromkeys([request.run_id, *(other.run_id for other in covered)]):
                await self._continue(run_id, request_id)
                run = await self._services.runs.get(run_id)
                if run.parent_call is not None:  # the parent waits at the same request, unless the parent was deleted
                    with suppress(NotFound):
                        parent = await self._services.runs.get(run.parent_call.run_id)
                        await self._continue(parent.run_id, request_id)
        await self._after_decision(request.run_id)

    async def _is_played(
        self, run: StoredRun, decisions: Mapping[str, Decision], *, is_started_later: bool = False
    ) -> bool:
        """Return whether the run is a recording with these decisions, which goes on, or is started later."""
        del run, decisions, is_started_later
        return False

    async def _after_decision(self, run_id: str) -> None:
        """Called when a decision on a run is stored, and the run has continued if it can."""

    async def decide_all(
        self, thread_id: str | None, message_id: str | None, decisions: Mapping[str, bool | Decision]
    ) -> StoredRun:
        """Store decisions on the run of a thread, all or none; return the run, ready to be started.

        Args:
            thread_id: The run's thread.
            message_id: The run's message, as a check; None for no check.
            decisions: Decisions by request id.
        """
        if thread_id is None:
            raise UsageError("Nothing to do: pass a question as content, or thread_id to resume a run.")
        run = await self._services.runs.get_by_thread(thread_id)
        if message_id is not None and message_id != run.message_id:
            raise NotFound(f"The thread {brief(thread_id)} answers {run.message_id!r}, not {brief(message_id)}.")
        checked = {
            request_id: self._as_stored(decision) if isinstance(decision, Decision) else Decision(decision)
            for request_id, decision in decisions.items()
        }
        if await self._is_played(run, checked, is_started_later=True):
            return run
        for request_id, decision in checked.items():
            request = await self._services.approvals.get(request_id)
            await self.check_decision(request, await self._services.runs.get(request.run_id), decision)
        now = whole_ms(self._services.clock.now())
        for request in await self._services.approvals.decide(checked, now, run_id=run.run_id):
            if request.run_id != run.run_id:  # a request of a subrun
                await self._continue(request.run_id, request.id)
        return await self._services.runs.get(run.run_id)

    def _as_stored(self, decision: Decision) -> Decision:
        """Return the decision in the form that the store returns, with known secrets masked.

        Errors: `UsageError` for parameters that are nested too deeply.
        """
        params = decision.params
        if params is not None:
            if is_too_deep(params):
                raise UsageError(f"params are nested deeper than {MAX_DEPTH} levels, and nothing was decided.")
            params = storable_json(dict(params))
        secrets = self._services.secrets.current
        return replace(decision, instruction=secrets.text(decision.instruction), params=secrets.value(params))

    async def check_decision(
        self, request: ApprovalRequest, run: StoredRun, decision: Decision, *, keeps_models: bool = True
    ) -> None:
        """Raise `UsageError` if this engine cannot carry out the decision on a request of the run.

        That is, the run, the tool or the budget is not available, or the edited parameters do not fit. If
        `keeps_models` is false, the run may continue with other models than at its start.
        """
        if decision.scope == "always" and not request.hosts:
            raise UsageError(
                "scope is 'always', which only a request about hosts can have. Use 'conversation' or 'run'."
            )
        await self._engine.run_config.check_resume(run, keeps_models=keeps_models)
        if request.kind == BUDGET_KIND:
            budget = Budget.from_limits({**request.params, **(decision.params or {})})
            # The models of an adapted graph, and so their prices, are unknown.
            if decision.approved and GRAPH_SETTING not in run.settings:
                self._engine.run_config.check_budget(budget, run.settings.get("model"))
            return
        if request.kind == QUESTION_KIND and not request.allows(decision):
            raise UsageError(
                f"{request.title!r} is a question, which cannot be {decision.choice}, and nothing was decided. "
                'Answer it with run.answer("..."), or leave it open with run.deny().'
            )
        if not request.allows(decision):
            raise UsageError(
                f"The request {request.title!r} cannot be {decision.choice}, so nothing was decided. "
                f"It can be {' or '.join(request.allowed)}."
            )
        if not request.tool_call_id:  # an interrupt of an adapted graph: only the graph knows which answers fit
            return
        if decision.approved and request.tool not in {tool.name for tool in self._services.tools}:
            raise UsageError(f"The tool {request.tool!r} is not registered here: register it first, then approve.")
        if decision.params is not None:
            try:
                args = self._services.tools.select([request.tool])[0].bind(decision.params)
                problem, flow = "", self._engine.flows.specs.get(run.flow)
                if flow is not None and flow.check_edit is not None:
                    services = dict(self._services.tool_services(run))
                    if flow.tool_services is not None:
                        agents = self._engine.agent_registry.services_for(self._services, run.settings)
                        services |= flow.tool_services(agents, self._engine.policy, run)
                    ids = run.run_id, run.conversation_id, run.message_id, request.agent, request.tool_call_id
                    problem = await flow.check_edit(ToolContext(*ids, services), args)
            except ToolError as error:
                problem = error.problem
            if problem:
                raise UsageError(f"The edited parameters are invalid, and nothing was decided: {problem}")

    def _hold_start_locks(self, run: StoredRun, stack: ExitStack) -> None:
        """Hold the start locks of a run and its parent, so that neither run counts as abandoned in the meantime."""
        for each in (run.run_id, *([run.parent_call.run_id] if run.parent_call else [])):
            stack.enter_context(self._engine.run_locks.starting(f"start-{each}"))

    async def _continue(self, run_id: str, request_id: str) -> None:
        """Continue a run after a decision; `StoreError` that names the decision if the run cannot continue."""
        try:
            await self.scheduler.continue_after_decision(run_id)
        except NotFound:  # the run was deleted meanwhile
            raise
        except (StoreError, UsageError) as error:
            raise StoreError(
                f"The decision on {request_id} is stored, but the run cannot continue now. {error} "
                "Solve this problem, then call run.resume()."
            ) from error

    async def single_request(self, run_id: str) -> ApprovalRequest:
        """Return the only open request of a run; `NotFound` for no request, `UsageError` that lists many requests."""
        pending = await self._services.approvals.open_requests(run_id)
        if not pending:
            run = await self._services.runs.get(run_id)
            status = effective_status(self._engine.folder, run.status, None, run.start_lock)
            advice = (
                " The run is abandoned: all requests were decided, but the process ended before the next step. "
                "Call run.resume()."
                if run.status == WAITING and status == ABANDONED
                else ""
            )
            raise NotFound(f"The run {run_id!r} is not waiting for a decision.{advice}")
        if len(pending) > 1:
            titles = "; ".join(f"{request.id}: {request.title}" for request in pending)
            raise UsageError(f"{len(pending)} requests are open; pass the id of one request. {titles}")
        return pending[0]
