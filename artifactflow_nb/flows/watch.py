"""Tells middleware of the calls of a run. What goes wrong in middleware is an event, and never hurts the run.

Values are made only where somebody is told: a run that nobody watches pays nothing.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

import orjson

from artifactflow_nb.errors import RunCancelled, UsageError
from artifactflow_nb.events import MAIN_JOB, StreamEventType
from artifactflow_nb.flows.journal import Journal
from artifactflow_nb.messages import Message, ToolCall, ToolResult
from artifactflow_nb.middleware import (
    HOOKS,
    CallError,
    Middleware,
    ModelCall,
    ModelOutcome,
    ToolInvocation,
    ToolOutcome,
    is_told,
)
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.recordings.tape import Asking
from artifactflow_nb.store.calls import LlmCall
from artifactflow_nb.store.plans import PlanStore
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.store.storable import storable_text, to_json
from artifactflow_nb.tools.threads import in_thread, is_cancelled

_MESSAGE_CHARS = 2_000


class Watchers:
    """The middleware of an engine.

    Args:
        middleware: In the order in which it is told.

    Attributes:
        middleware: All of it.
        told_of: What is told of each kind, by the name of the method; empty if there is no middleware.

    Errors: `UsageError` for what is no middleware.
    """

    def __init__(self, middleware: Iterable[Middleware] = ()) -> None:
        self.middleware = _checked(middleware)
        self.told_of: Mapping[str, list[Middleware]] = {
            hook: [one for one in self.middleware if is_told(one, hook)] for hook in (HOOKS if self.middleware else ())
        }

    def of_run(self, run: StoredRun, journal: Journal, mask: Callable[[str], str], plans: PlanStore) -> "Watch":
        """What tells them of one run; the arguments are those of `Watch`."""
        return Watch(self, run, journal, mask, plans)


class Watch:
    """Tells of the calls of one run; what is told of a call's beginning is told again with its end.

    Args:
        watchers: Who is told.
        run: The run.
        journal: Where it is noted what went wrong.
        mask: Takes secrets out of that.
        plans: Knows which jobs work for a plan.
    """

    def __init__(
        self, watchers: Watchers, run: StoredRun, journal: Journal, mask: Callable[[str], str], plans: PlanStore
    ) -> None:
        self._watchers = watchers
        self._run_id = run.run_id
        self._caller_id = "" if run.origin is None else run.origin.tool_call_id
        self._journal = journal
        self._mask = mask
        self._plans = plans

    async def model_asked(self, asking: Asking, provider: str, attempt: int, at: datetime) -> ModelCall | None:
        """Tell that a model is about to be asked; None if nobody watches."""
        if not self._watchers.told_of:
            return None
        request = asking.request
        call = ModelCall(
            run_id=self._run_id,
            agent=asking.agent,
            job_id=asking.job_id,
            step=asking.step,
            attempt=attempt,
            call_id=asking.call_id,
            provider=provider,
            model=asking.model,
            messages=tuple(map(_own_message, request.messages)),
            tools=tuple(tool.name for tool in request.tools),
            temperature=request.temperature,
            at=at,
            caller_id=await self._caller_of(asking.job_id),
        )
        await self._tell("before_model", call)
        return call

    async def model_replied(
        self, call: ModelCall | None, row: LlmCall, reply: ModelReply, calls: Iterable[ToolCall]
    ) -> None:
        """Tell what a model replied, as it is stored."""
        if call is None:
            return
        outcome = ModelOutcome(
            content=reply.content,
            reasoning=reply.reasoning,
            calls=tuple(map(_own_call, calls)),
            usage=reply.usage,
            finish_reason=reply.finish_reason,
            model=reply.model,
            duration_ms=row.llm_duration_ms,
            ttft_ms=reply.ttft_ms,
            cost_usd=row.cost_usd,
        )
        await self._tell("after_model", call, outcome)

    async def model_failed(self, call: ModelCall | None, row: LlmCall) -> None:
        """Tell why a model gave no reply, as it is stored."""
        if call is not None:
            why = row.error_type or "", row.error_message or "", row.llm_duration_ms, row.content, row.retry_delay_s
            await self._tell("on_model_error", call, CallError(*why))

    async def tool_called(
        self,
        agent: str,
        job_id: str,
        tool_call_id: str,
        tool: str,
        params: Mapping[str, Any],
        at: datetime,
        *,
        is_new: bool,
    ) -> ToolInvocation | None:
        """Tell that a tool is about to run, unless it was told before its process ended; None if nobody watches."""
        if not self._watchers.told_of:
            return None
        caller_id = await self._caller_of(job_id)
        call = ToolInvocation(self._run_id, agent, job_id, tool_call_id, tool, _own_json(params), at, caller_id)
        if is_new:
            await self._tell("before_tool", call)
        return call

    async def tool_done(self, call: ToolInvocation | None, result: ToolResult, duration_ms: float) -> None:
        """Tell what came of a tool call, as it is stored."""
        if call is None:
            return
        metadata = _own_json(result.metadata)
        if result.success:
            await self._tell("after_tool", call, ToolOutcome(result.data, metadata, duration_ms))
            return
        kind = str(metadata.pop("error_type", "ToolError"))
        await self._tell("on_tool_error", call, CallError(kind, result.error or "", duration_ms, metadata=metadata))

    async def tool_broke(self, call: ToolInvocation | None, error: BaseException) -> None:
        """Tell that a tool call was cut short and has no result."""
        if call is not None:
            kind = RunCancelled if isinstance(error, asyncio.CancelledError) else type(error)
            why = CallError(kind.__name__, str(error) or "The run was cancelled.")
            await self._tell("on_tool_error", call, why)

    async def _caller_of(self, job_id: str) -> str:
        """The tool call that a job works for; of the agent that leads, the one that its run works for, or none."""
        return self._caller_id if job_id == MAIN_JOB else await self._plans.call_of(job_id) or job_id

    async def _tell(self, hook: str, call: ModelCall | ToolInvocation, *more: Any) -> None:
        for one in self._watchers.told_of[hook]:
            try:
                await _called_in_time(one, hook, call, *more)
            except BaseException as error:  # it may raise anything, an exit too: the run goes on
                if isinstance(error, asyncio.CancelledError) and is_cancelled():
                    raise
                self._report(one, hook, call, error)

    def _report(self, one: Middleware, hook: str, call: ModelCall | ToolInvocation, error: BaseException) -> None:
        which = {"call_id": call.call_id} if isinstance(call, ModelCall) else {"tool_call_id": call.tool_call_id}
        data = {
            "job_id": call.job_id,
            **which,
            "middleware": type(one).__name__,
            "hook": hook,
            "error_type": type(error).__name__,
            "message": self._mask(storable_text(_said(error)))[:_MESSAGE_CHARS],
        }
        tool = call.tool if isinstance(call, ToolInvocation) else None
        self._journal.emit(StreamEventType.MIDDLEWARE_ERROR, data, agent=call.agent, tool=tool)


async def _called_in_time(one: Middleware, hook: str, *told: Any) -> None:
    limit = asyncio.timeout(one.timeout_s)
    try:
        async with limit:
            await _called(one, hook, *told)
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"It took longer than {one.timeout_s:g} s; the run goes on without it.") from None


async def _called(one: Middleware, hook: str, *told: Any) -> None:
    """Call a method here if it is `async`, else in a thread: it may take its time, and the loop must not wait."""
    method = getattr(one, hook)
    if inspect.iscoroutinefunction(method):
        await method(*told)
        return
    outcome = await in_thread(partial(method, *told), f"{type(one).__name__}-{hook}")
    if inspect.isawaitable(outcome):
        await outcome


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an error of a user's own may be unable to say what it is
        return "(The error cannot say what it is.)"


def _checked(middleware: Any) -> tuple[Middleware, ...]:
    if isinstance(middleware, Middleware) or not isinstance(middleware, Iterable):
        raise UsageError(f"middleware is {middleware!r}; it must be a list, as in middleware=[af.DebugMiddleware()].")
    watching = tuple(middleware)
    for one in watching:
        if not isinstance(one, Middleware):
            hint = "make an object of it." if isinstance(one, type) else "its class must be made from af.Middleware."
            raise UsageError(f"{one!r} is no middleware: {hint}")
    return watching


def _own_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """A copy as the store would have it: whatever is done to it, the run's own stays as it is."""
    copy: dict[str, Any] = orjson.loads(to_json(dict(value)))
    return copy


def _own_call(call: ToolCall) -> ToolCall:
    return ToolCall(call.name, _own_json(call.params), call.error)


def _own_message(message: Message) -> Message:
    if not message.calls:
        return message
    return Message(message.role, message.content, tuple(map(_own_call, message.calls)))
