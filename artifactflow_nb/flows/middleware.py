"""Calls middleware for the model and tool calls of a run. An error in middleware becomes an event and ends no run.

A run without middleware has no overhead: values are created only for hooks that are implemented.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import orjson

from artifactflow_nb.core.events import MAIN_JOB, StreamEventType
from artifactflow_nb.core.messages import ToolCall, ToolResult
from artifactflow_nb.core.middleware import (
    HOOKS,
    CallError,
    Middleware,
    ModelCall,
    ModelOutcome,
    ToolInvocation,
    ToolOutcome,
    implements_hook,
)
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.errors import RunCancelled, UsageError, brief
from artifactflow_nb.flows.events import EventWriter
from artifactflow_nb.models.base import ModelReply, ModelRequest
from artifactflow_nb.store.calls import LlmCall
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.store.plans import PlanStore
from artifactflow_nb.tools.threads import is_task_cancelled, run_in_thread

_MESSAGE_CHARS = 2_000


class MiddlewareStack:
    """The middleware of an engine.

    Attributes:
        by_hook: The middleware that implements each hook, by the hook's name; empty if there is no middleware.

    Errors: `UsageError` for an object that is not middleware.
    """

    def __init__(self, middleware: Iterable[Middleware] = ()) -> None:
        if isinstance(middleware, Middleware) or not isinstance(middleware, Iterable):
            raise UsageError(
                f"middleware is {brief(middleware)}; it must be a list, as in middleware=[af.DebugMiddleware()]."
            )
        self.middleware = tuple(middleware)
        for observer in self.middleware:
            if not isinstance(observer, Middleware):
                hint = (
                    "pass an object of this class."
                    if isinstance(observer, type)
                    else "its class must be made from af.extend.Middleware."
                )
                raise UsageError(f"{brief(observer)} is not middleware: {hint}")
        self.by_hook: Mapping[str, list[Middleware]] = {
            hook: [observer for observer in self.middleware if implements_hook(observer, hook)]
            for hook in (HOOKS if self.middleware else ())
        }


class RunMiddleware:
    """Calls the hooks for one run. Hooks after a call get the same value as hooks before the call.

    `caller_id` is the tool call for which a subrun was started; empty for other runs.
    """

    def __init__(
        self,
        stack: MiddlewareStack,
        run_id: str,
        caller_id: str,
        event_writer: EventWriter,
        redact: Callable[[str], str],
        plans: PlanStore,
    ) -> None:
        self._stack = stack
        self._run_id = run_id
        self._caller_id = caller_id
        self._event_writer = event_writer
        self._redact = redact
        self._plans = plans

    async def before_model(
        self,
        request: ModelRequest,
        at: datetime,
        *,
        call_id: str,
        job_id: str,
        step: int,
        attempt: int,
        agent: str,
        provider: str,
        model: str,
    ) -> ModelCall | None:
        """Call the hooks that run before a model call; None if there is no middleware."""
        if not self._stack.by_hook:
            return None
        call = ModelCall(
            run_id=self._run_id,
            agent=agent,
            job_id=job_id,
            step=step,
            attempt=attempt,
            call_id=call_id,
            provider=provider,
            model=model,
            messages=tuple(
                replace(message, calls=tuple(map(_own_call, message.calls))) if message.calls else message
                for message in request.messages
            ),
            tools=tuple(tool.name for tool in request.tools),
            temperature=request.temperature,
            at=at,
            caller_id=await self._caller_of(job_id),
        )
        await self._call_hooks("before_model", call)
        return call

    async def after_model(
        self, call: ModelCall | None, row: LlmCall, reply: ModelReply, calls: Iterable[ToolCall]
    ) -> None:
        """Call the hooks after a model call, with the reply as it is stored."""
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
        await self._call_hooks("after_model", call, outcome)

    async def on_model_error(self, call: ModelCall | None, row: LlmCall) -> None:
        """Call the hooks after a failed model call, with the error as it is stored."""
        if call is not None:
            error = row.error_type or "", row.error_message or "", row.llm_duration_ms, row.content, row.retry_delay_s
            await self._call_hooks("on_model_error", call, CallError(*error))

    async def before_tool(
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
        """Call the hooks before a tool call that is new; None if there is no middleware."""
        if not self._stack.by_hook:
            return None
        caller_id = await self._caller_of(job_id)
        call = ToolInvocation(self._run_id, agent, job_id, tool_call_id, tool, _own_json(params), at, caller_id)
        if is_new:
            await self._call_hooks("before_tool", call)
        return call

    async def after_tool(self, call: ToolInvocation | None, result: ToolResult, duration_ms: float) -> None:
        """Call the hooks after a tool call, with the result as it is stored."""
        if call is None:
            return
        metadata = _own_json(result.metadata)
        if result.success:
            await self._call_hooks("after_tool", call, ToolOutcome(result.data, metadata, duration_ms))
            return
        kind = str(metadata.pop("error_type", "ToolError"))
        await self._call_hooks(
            "on_tool_error", call, CallError(kind, result.error or "", duration_ms, metadata=metadata)
        )

    async def on_tool_error(self, call: ToolInvocation | None, error: BaseException) -> None:
        """Call the hooks after a tool call that was interrupted and has no result."""
        if call is not None:
            kind = RunCancelled if isinstance(error, asyncio.CancelledError) else type(error)
            details = CallError(kind.__name__, str(error) or "The run was cancelled.")
            await self._call_hooks("on_tool_error", call, details)

    async def _caller_of(self, job_id: str) -> str:
        """Return the tool call that a job carries out; for the main job, the parent call of the run, if any."""
        return self._caller_id if job_id == MAIN_JOB else await self._plans.tool_call_of_job(job_id) or job_id

    async def _call_hooks(self, hook: str, call: ModelCall | ToolInvocation, *more: Any) -> None:
        for observer in self._stack.by_hook[hook]:
            try:
                await _call_in_time(observer, hook, call, *more)
            except BaseException as error:  # user code may raise anything, also SystemExit: the run continues
                if isinstance(error, asyncio.CancelledError) and is_task_cancelled():
                    raise
                self._report(observer, hook, call, error)

    def _report(self, observer: Middleware, hook: str, call: ModelCall | ToolInvocation, error: BaseException) -> None:
        ids = {"call_id": call.call_id} if isinstance(call, ModelCall) else {"tool_call_id": call.tool_call_id}
        try:
            message = str(error)
        except Exception:  # noqa: BLE001 - `__str__` of an error of user code may fail
            message = "(The error has no readable message.)"
        data = {
            "job_id": call.job_id,
            **ids,
            "middleware": type(observer).__name__,
            "hook": hook,
            "error_type": type(error).__name__,
            "message": self._redact(storable_text(message))[:_MESSAGE_CHARS],
        }
        tool = call.tool if isinstance(call, ToolInvocation) else None
        self._event_writer.emit(StreamEventType.MIDDLEWARE_ERROR, data, agent=call.agent, tool=tool)


async def _call_in_time(observer: Middleware, hook: str, *values: Any) -> None:
    """Await an `async` hook, or run a plain hook in a thread, because the hook may block; stop at the time limit."""
    method = getattr(observer, hook)
    limit = asyncio.timeout(observer.timeout_s)
    try:
        async with limit:
            if inspect.iscoroutinefunction(method):
                await method(*values)
                return
            outcome = await run_in_thread(partial(method, *values), f"{type(observer).__name__}-{hook}")
            if inspect.isawaitable(outcome):
                await outcome
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"The hook took longer than {observer.timeout_s:g} s; the run did not wait.") from None


def _own_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a value through JSON, so that middleware can change it without effect on the run."""
    copy: dict[str, Any] = orjson.loads(to_json(dict(value)))
    return copy


def _own_call(call: ToolCall) -> ToolCall:
    return ToolCall(call.name, _own_json(call.params), call.error)
