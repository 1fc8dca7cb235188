"""Model calls and tool calls of an adapted graph, as rows and events like the calls of the package's agents."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.clock_ids import CallTimes, Span, call_id, derived_id, tool_call_id
from artifactflow_nb.core.events import MAIN_JOB, PARALLEL_SEPARATOR, StreamEventType
from artifactflow_nb.core.messages import ToolCall, ToolResult
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.errors import describe_error
from artifactflow_nb.flows.compression import cut_text
from artifactflow_nb.flows.known_secrets import MaskedPieces
from artifactflow_nb.flows.model_call import ModelCallRecord, ModelCallStart
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.tool_call import ERROR_CHARS
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.plugins.graphs.interrupts import InterruptPart
from artifactflow_nb.plugins.graphs.messages import (
    checkpoint_namespace,
    deltas_from_chunk,
    model_name_of,
    model_reply,
    model_request,
    to_plain_json,
    tool_result_from_output,
    tool_results_in,
)
from artifactflow_nb.store.calls import PENDING, STARTED, OpenCall, StoredCall, ToolCallSettings, ToolRun

GRAPH_TOOL_SETTINGS = ToolCallSettings("native", "auto")
"""The form in which a graph offers tools to models, as far as the form is visible from outside."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The node that makes a call, and the job in which it runs."""

    agent: str
    job_id: str


class GraphCalls:
    """The open model calls of a run, by LangChain's run ids.

    A call that starts while another call of its job is open gets a job of its own, which keeps parallel calls apart.
    """

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        self._open: dict[str, ModelCallRecord] = {}
        self._steps: dict[str, int] = {}
        self._pieces: dict[str, MaskedPieces] = {}

    @property
    def open_calls(self) -> tuple[str, ...]:
        """LangChain's run ids of the model calls without an end."""
        return tuple(self._open)

    async def begin(self, key: str, caller: Caller, event: Mapping[str, Any], times: CallTimes | None) -> None:
        """Publish the start of a call; `times` has the time of the start, or None for now."""
        busy = {record.call_start.job_id for record in self._open.values()}
        job_id, n = caller.job_id, 1
        while job_id in busy:
            job_id = PARALLEL_SEPARATOR.join([caller.job_id, caller.agent, *([str(n)] if n > 1 else [])])
            n += 1
        if job_id not in self._steps:
            self._steps[job_id] = await self._ctx.services.calls.last_step(self._ctx.run.run_id, job_id)
        self._steps[job_id] += 1
        metadata = event["metadata"]
        start = ModelCallStart(
            call_id=call_id(self._ctx.run.run_id, job_id, self._steps[job_id], 0),
            job_id=job_id,
            step=self._steps[job_id],
            agent=caller.agent,
            provider=str(metadata.get("ls_provider") or "langchain"),
            model=self._ctx.secrets.text(model_name_of(event)),
            temperature=metadata.get("ls_temperature"),
            messages=self._ctx.secrets.messages(model_request(event["data"]).messages),
            tool_settings=GRAPH_TOOL_SETTINGS,
        )
        record = self._open[key] = ModelCallRecord(self._ctx, start, times)
        instruction = self._ctx.run.question if job_id == MAIN_JOB else ""
        record.emit(StreamEventType.AGENT_START, instruction=instruction, model=start.model)

    def publish_chunk(self, key: str, chunk: Any) -> None:
        """Publish a chunk of a reply, unless the call has failed."""
        if key not in self._open:
            return
        pieces = self._pieces.setdefault(key, MaskedPieces(self._ctx.secrets))
        for delta in deltas_from_chunk(chunk):
            text = pieces.feed(delta.kind, delta.text) if self._ctx.secrets else delta.text
            if text or delta.kind == "call":
                self._open[key].publish_delta(delta.kind, text, self._ctx.secrets.text(delta.tool))

    def _publish_rest(self, key: str, *, is_cut_off: bool) -> None:
        """Publish the text that was withheld as a possible beginning of a secret."""
        if (pieces := self._pieces.pop(key, None)) is not None:
            for kind, text in pieces.finish(is_cut_off=is_cut_off):
                self._open[key].publish_delta(kind, text)

    async def finish(self, key: str, output: Any) -> list[OpenCall]:
        """Store and publish a reply; return its tool calls."""
        if (record := self._open.get(key)) is None:
            return []
        self._publish_rest(key, is_cut_off=False)
        start = record.call_start
        request = ModelRequest(start.messages, tool_protocol="native")
        reply = self._ctx.secrets.reply(model_reply(output, request, start.model, record.ttft_ms))
        routing = [{"type": "tool_call", "tool_name": call.name, "params": dict(call.params)} for call in reply.calls]
        row = self._open.pop(key).complete(reply, reply.content, routing)
        calls = [(tool_call_id(row.call_id, position), call) for position, call in enumerate(reply.calls)]
        await self._ctx.services.calls.record_model_call(row, calls, self._ctx.event_writer.drain())
        return [OpenCall(StoredCall(key, call, PENDING), start.job_id, start.agent) for key, call in calls]

    async def fail(self, key: str, error_type: str, message: str, *, graph_continues: bool = False) -> None:
        """Store a call without a reply; if the graph continues, publish the call as a retry, which voids the text."""
        self._publish_rest(key, is_cut_off=True)
        record = self._open.pop(key)
        reason = storable_text(self._ctx.services.secrets.redact(message))
        retry = {"attempt": 1, "delay_s": 0.0, "reason": reason} if graph_continues else None
        row = record.fail(error_type, reason, record.partial, retry_payload=retry)
        await self._ctx.services.calls.record_model_call(row, (), self._ctx.event_writer.drain())


@dataclass(frozen=True, slots=True)
class _RunningTool:
    """A running tool.

    Attributes:
        is_requested: Whether a model requested the call.
        times: Start and end, if LangChain's callbacks have recorded them.
    """

    open_call: OpenCall
    span: Span
    is_requested: bool
    times: CallTimes | None = None

    @property
    def call_id(self) -> str:
        return self.open_call.call.tool_call_id


@dataclass(frozen=True, slots=True)
class _FailedTool:
    """A tool that raised an error. The failure is not final, because the node may be retried."""

    running_tool: _RunningTool
    result: ToolResult
    namespace: str
    parent_ids: Sequence[str]


class GraphTools:
    """The tool calls of a run, by LangChain's run ids."""

    def __init__(self, ctx: RunContext, pending: Sequence[OpenCall]) -> None:
        self._ctx = ctx
        self._pending = list(pending)
        self._langchain_ids: dict[str, str | None] = {}
        self._running: dict[str, _RunningTool] = {}
        self._failed: list[_FailedTool] = []
        self._approvals: dict[str, str] = {}

    async def register_calls(self, job_id: str, calls: Sequence[OpenCall], ids: Sequence[str | None]) -> None:
        """Add the calls of a job's new reply; unfinished calls of earlier replies will never run."""
        await self._store_failed([tool for tool in self._failed if tool.running_tool.open_call.job_id == job_id])
        self._pending = [call for call in self._pending if call.job_id != job_id] + list(calls)
        self._langchain_ids.update(zip((call.call.tool_call_id for call in calls), ids, strict=True))

    def record_reviews(self, parts: Sequence[InterruptPart], decisions: Sequence[Decision]) -> None:
        """Record the decisions on the parts of an interrupt, for the rows of the calls that the parts review."""
        for part, decision in zip(parts, decisions, strict=True):
            reviewed = part.fields.get("tool"), self._ctx.secrets.value(part.fields.get("params"))
            for opened in self._pending if part.types else ():
                call, call_id = opened.call.call, opened.call.tool_call_id
                if (call.name, dict(call.params)) == reviewed and call_id not in self._approvals:
                    self._approvals[call_id] = decision.approval
                    break

    async def store_results(self, conversation: Iterable[Any], job_id: str | None = None) -> None:
        """Store the results that the graph wrote for calls without running a tool.

        With `job_id`, only results of this job are stored.
        """
        pending = [call for call in self._pending if job_id is None or _belongs_to(call.job_id, job_id)]
        results, secrets = tool_results_in(conversation) if pending else {}, self._ctx.secrets
        answers = {key: (secrets.call(call), secrets.result(result)) for key, (call, result) in results.items()}
        for opened in pending:
            call_id = opened.call.tool_call_id
            same = (key for key, (call, _) in answers.items() if call == opened.call.call)
            key = next((key for key in same if self._langchain_ids.get(call_id) in (None, key)), None)
            if key is not None:
                self._pending.remove(opened)
                await self._start_call(call_id, opened, None, is_requested=True)
                await self._store_result(call_id, answers.pop(key)[1])

    def running_job(self, key: str) -> tuple[str, str] | None:
        """Return the id of the job within a running tool, and the tool's name, or None for an unknown id."""
        tool = self._running.get(key)
        return None if tool is None else (tool.call_id, tool.open_call.call.call.name)

    def requested_call(self, key: str) -> OpenCall | None:
        """Return the running call that a model requested, or None for an unknown id and for a call by a node."""
        tool = self._running.get(key)
        return tool.open_call if tool is not None and tool.is_requested else None

    async def start(
        self,
        key: str,
        caller: Caller,
        event: Mapping[str, Any],
        langchain_id: str | None,
        times: CallTimes | None = None,
    ) -> None:
        """Start a tool and publish the start, unless the same call started before a pause or a retry.

        `key` is the run id of LangChain; `langchain_id` is None if a node calls the tool by itself.
        """
        namespace = checkpoint_namespace(event["metadata"])
        for failed in self._failed:
            if self._langchain_ids[failed.running_tool.call_id] == langchain_id and failed.namespace == namespace:
                self._failed.remove(failed)
                self._running[key] = replace(failed.running_tool, times=times)
                return
        name, args = event["name"], self._ctx.secrets.value(to_plain_json(event["data"].get("input") or {}))
        # The call is the pending call with this id, or with the same arguments, or any call of this tool: a graph may
        # add arguments that no model wrote, such as the state of the graph.
        of_tool = [c for c in self._pending if c.call.call.name == name and _belongs_to(c.job_id, caller.job_id)]
        with_id = [
            call
            for call in of_tool
            if langchain_id is not None and self._langchain_ids.get(call.call.tool_call_id) == langchain_id
        ]
        with_args = [call for call in with_id or of_tool if dict(call.call.call.params) == args]
        requested = next(iter(with_args or with_id or of_tool), None)
        if requested is None:
            own = StoredCall(derived_id("tool", key), ToolCall(storable_text(name), args), PENDING)
            await self._start_call(key, OpenCall(own, caller.job_id, caller.agent), times, is_requested=False)
        else:
            self._pending.remove(requested)
            self._langchain_ids.setdefault(requested.call.tool_call_id, langchain_id)  # of a call before a pause
            await self._start_call(key, requested, times, is_requested=True)

    async def _start_call(self, key: str, opened: OpenCall, times: CallTimes | None, *, is_requested: bool) -> None:
        call, span = opened.call, self._ctx.clock.start(times)
        self._running[key] = _RunningTool(opened, span, is_requested, times)
        if call.status != STARTED:
            self._emit(opened, StreamEventType.TOOL_START, params=dict(call.call.params))
        if is_requested:
            events, approval = self._ctx.event_writer.drain(), self._approvals.get(call.tool_call_id)
            await self._ctx.services.calls.start(call.tool_call_id, span.at, events, approval)

    def _emit(self, opened: OpenCall, kind: StreamEventType, **data: Any) -> None:
        payload = {"job_id": opened.job_id, "tool_call_id": opened.call.tool_call_id, **data}
        self._ctx.event_writer.emit(kind, payload, agent=opened.agent, tool=opened.call.call.name)

    def pause(self, key: str) -> None:
        """Record that the run pauses within a tool, which will start again."""
        opened = self._running.pop(key).open_call
        self._pending.append(replace(opened, call=replace(opened.call, status=STARTED)))

    def pause_all(self) -> None:
        """Record that the run pauses within all running tools; failed tools run again with their nodes."""
        for failed in self._failed:
            self._running[failed.running_tool.call_id] = failed.running_tool
        self._failed.clear()
        for key in tuple(self._running):
            self.pause(key)

    async def fail(self, key: str, error: BaseException, event: Mapping[str, Any]) -> None:
        """Record the error of a tool, which is stored as soon as the node can no longer be retried."""
        problem = storable_text(self._ctx.services.secrets.redact(describe_error(error)))
        result = ToolResult(success=False, error=problem, metadata={"error_type": type(error).__name__})
        tool = self._running[key]
        if self._langchain_ids.get(tool.call_id) is None:
            await self._store_result(key, result)
        else:
            del self._running[key]
            self._failed.append(_FailedTool(tool, result, checkpoint_namespace(event["metadata"]), event["parent_ids"]))

    async def store_failures(self, *, parent_id: str | None = None, namespace: str | None = None) -> None:
        """Store failures that are final: within a part that has ended, in a node that continues, or all failures."""
        is_all = parent_id is None and namespace is None
        await self._store_failed(
            [
                tool
                for tool in self._failed
                if is_all or parent_id in tool.parent_ids or (namespace and tool.namespace == namespace)
            ]
        )

    async def _store_failed(self, failed: Sequence[_FailedTool]) -> None:
        for tool in failed:
            self._failed.remove(tool)
            await self._complete(tool.running_tool, tool.result)

    async def finish(self, key: str, output: Any) -> None:
        """Store and publish the result of a tool."""
        await self._store_result(key, self._ctx.secrets.result(tool_result_from_output(output)))

    async def _store_result(self, key: str, result: ToolResult) -> None:
        await self._complete(self._running.pop(key), result)

    async def _complete(self, tool: _RunningTool, result: ToolResult) -> None:
        completed_at, duration_ms = self._ctx.clock.stop(tool.span, tool.times)
        self._emit(
            tool.open_call,
            StreamEventType.TOOL_COMPLETE,
            success=result.success,
            duration_ms=duration_ms,
            error=result.error and cut_text(result.error, ERROR_CHARS),
            metadata=dict(result.metadata),
        )
        if tool.is_requested:
            times = tool.span.at, completed_at, duration_ms
            # A tool that paused for its own decision was approved in an earlier part of the run.
            approval = self._approvals.get(tool.call_id) or tool.open_call.call.approval or "not_needed"
            events = self._ctx.event_writer.drain()
            await self._ctx.services.calls.finish([ToolRun(tool.call_id, result, approval, *times, events)])


def _belongs_to(job_id: str, base: str) -> bool:
    """Return whether a job is `base` or runs parallel to `base`."""
    return job_id.partition(PARALLEL_SEPARATOR)[0] == base
