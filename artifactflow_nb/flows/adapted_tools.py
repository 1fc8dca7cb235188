"""The tool calls of an adapted graph: each is a call of the ledger that a reply asked for, carried out by the graph.

A tool that a node calls by itself, which no model asked for, is told by events and has no row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from artifactflow_nb.ambient import derived_id
from artifactflow_nb.errors import told
from artifactflow_nb.events import BESIDE, StreamEventType
from artifactflow_nb.flows.adapted_calls import Caller
from artifactflow_nb.flows.adapted_values import answers_of, plain, result_of, space_of
from artifactflow_nb.flows.context import cut_text
from artifactflow_nb.flows.execute import ERROR_CHARS
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.messages import ToolCall, ToolResult
from artifactflow_nb.recordings.clock import Span
from artifactflow_nb.store.calls import PENDING, STARTED, OpenCall, StoredCall, ToolRun
from artifactflow_nb.store.storable import storable_text


@dataclass(frozen=True, slots=True)
class _Use:
    """A tool at work; `is_asked` if a model asked for it."""

    open: OpenCall
    span: Span
    is_asked: bool


@dataclass(frozen=True, slots=True)
class _Failed:
    """A tool that raised: it may be begun again, if its node is."""

    use: _Use
    result: ToolResult
    space: str
    within: Sequence[str]


class GraphTools:
    """Follows the tool calls of one run by the ids that LangChain gives them.

    Args:
        ctx: The run.
        left: The calls of the ledger that are not finished.
    """

    def __init__(self, ctx: RunContext, left: Sequence[OpenCall]) -> None:
        self._ctx = ctx
        self._left = list(left)
        self._ids: dict[str, str | None] = {}
        self._at_work: dict[str, _Use] = {}
        self._failed: list[_Failed] = []

    async def asked(self, job_id: str, calls: Sequence[OpenCall], ids: Sequence[str | None]) -> None:
        """Take in the calls of a job's new reply: those of the one before will not be carried out any more.

        Args:
            job_id: The job.
            calls: The calls.
            ids: Those that LangChain gives them.
        """
        await self._settle([one for one in self._failed if one.use.open.job_id == job_id])
        self._left = [one for one in self._left if one.job_id != job_id] + list(calls)
        self._ids.update(zip((one.call.tool_call_id for one in calls), ids, strict=True))

    async def answered(self, conversation: Iterable[Any], job_id: str | None = None) -> None:
        """Store and tell what the graph itself answered to calls for which no tool has run.

        Args:
            conversation: The messages in which it did.
            job_id: The job whose calls are looked at; None for all.
        """
        left = [one for one in self._left if job_id is None or _is_within(one.job_id, job_id)]
        answers = answers_of(conversation) if left else {}
        for one in left:
            made = one.call.tool_call_id
            same = (key for key, (call, _) in answers.items() if call == one.call.call)
            key = next((key for key in same if self._ids.get(made) in (None, key)), None)
            if key is not None:
                self._left.remove(one)
                await self.enter(made, one, is_asked=True)
                await self.conclude(made, answers.pop(key)[1])

    def job_of(self, key: str) -> str | None:
        """The job of what goes on within a tool; None if no tool of this id is at work."""
        use = self._at_work.get(key)
        return None if use is None else use.open.call.tool_call_id

    def name_of(self, key: str) -> str:
        """The name of a tool at work."""
        return self._at_work[key].open.call.call.name

    async def start(self, key: str, caller: Caller, event: Mapping[str, Any], known: str | None = None) -> None:
        """Note that a tool starts, and say so unless it did before the run paused within it.

        Args:
            key: The id that LangChain gives the tool's work.
            caller: Who calls it.
            event: What tells of it.
            known: The id that LangChain gives the call; None if a node calls the tool by itself.
        """
        if (before := self._failed_before(known, space_of(event["metadata"]))) is not None:
            self._failed.remove(before)
            self._at_work[key] = before.use
            return
        name, args = event["name"], event["data"].get("input") or {}
        found = self._take(name, args, caller.job_id, known)
        if found is None:
            own = StoredCall(derived_id("tool", key), ToolCall(storable_text(name), plain(args)), PENDING)
            opened = OpenCall(own, caller.job_id, caller.agent)
        else:
            opened = found
        await self.enter(key, opened, is_asked=found is not None)

    async def enter(self, key: str, opened: OpenCall, *, is_asked: bool) -> None:
        """Note that this call starts, which a model asked for or not, and say so unless it did before."""
        call = opened.call
        span = self._ctx.tape.clock.start(call.tool_call_id, call.tool_call_id)
        self._at_work[key] = _Use(opened, span, is_asked)
        if call.status != STARTED:
            self._emit(opened, StreamEventType.TOOL_START, params=dict(call.call.params))
        if is_asked:
            await self._ctx.services.calls.start(call.tool_call_id, span.at, self._ctx.journal.take())

    def _take(self, name: str, args: Mapping[str, Any], job_id: str, known: str | None) -> OpenCall | None:
        """The call that this is; None if there is none.

        It is one of the tool: that with the id that is known, else one with the same arguments, else any. What a graph
        adds to the arguments, its state for example, no model wrote.
        """
        of_tool = [one for one in self._left if one.call.call.name == name and _is_within(one.job_id, job_id)]
        by_id = [one for one in of_tool if known is not None and self._ids.get(one.call.tool_call_id) == known]
        same = [one for one in by_id or of_tool if dict(one.call.call.params) == plain(args)]
        found = next(iter(same or by_id or of_tool), None)
        if found is not None:
            self._left.remove(found)
        return found

    def _emit(self, opened: OpenCall, kind: StreamEventType, **data: Any) -> None:
        key = opened.call.tool_call_id
        about = {"agent": opened.agent, "tool": opened.call.call.name, "lane": key}
        self._ctx.journal.emit(kind, {"job_id": opened.job_id, "tool_call_id": key, **data}, **about)

    def pause(self, key: str) -> None:
        """Note that the run pauses within a tool, which starts anew when it goes on."""
        opened = self._at_work.pop(key).open
        self._left.append(replace(opened, call=replace(opened.call, status=STARTED)))

    def pause_all(self) -> None:
        """Note that the run pauses, whatever tools are at work."""
        for key in tuple(self._at_work):
            self.pause(key)

    async def fail(self, key: str, error: BaseException, event: Mapping[str, Any]) -> None:
        """Note that a tool raised. It is stored and told when it is clear that its node does not try again."""
        found, why = {"error_type": type(error).__name__}, self._ctx.services.mask(told(error))
        result, use = ToolResult(success=False, error=storable_text(why), metadata=found), self._at_work[key]
        if self._ids.get(use.open.call.tool_call_id) is None:
            await self.conclude(key, result)
        else:
            del self._at_work[key]
            self._failed.append(_Failed(use, result, space_of(event["metadata"]), event["parent_ids"]))

    def _failed_before(self, known: str | None, space: str) -> _Failed | None:
        """The failure of the call that begins again in its node; None if it begins."""
        failed = (one for one in self._failed if self._ids[one.use.open.call.tool_call_id] == known)
        return next((one for one in failed if one.space == space), None)

    async def settle(self, *, within: str | None = None, space: str | None = None) -> None:
        """Store and tell what has failed for good: in what came to its end, in the node that goes on, or anywhere."""
        everywhere = within is None and space is None
        await self._settle(
            [one for one in self._failed if everywhere or within in one.within or (space and one.space == space)]
        )

    async def _settle(self, failed: Sequence[_Failed]) -> None:
        for one in failed:
            self._failed.remove(one)
            await self._close(one.use, one.result)

    async def finish(self, key: str, output: Any) -> None:
        """Store and tell what a tool gave."""
        await self.conclude(key, result_of(output))

    async def conclude(self, key: str, result: ToolResult) -> None:
        """Store and tell this result."""
        await self._close(self._at_work.pop(key), result)

    async def _close(self, use: _Use, result: ToolResult) -> None:
        completed_at, duration_ms = self._ctx.tape.clock.stop(use.span)
        self._emit(
            use.open,
            StreamEventType.TOOL_COMPLETE,
            success=result.success,
            duration_ms=duration_ms,
            error=result.error and cut_text(result.error, ERROR_CHARS),
            metadata=dict(result.metadata),
        )
        if use.is_asked:
            times = use.span.at, completed_at, duration_ms
            events = self._ctx.journal.take()
            made = use.open.call.tool_call_id
            provenance = self._ctx.tape.provenance(made)
            run = ToolRun(made, result, "not_needed", *times, events, cassette=provenance)
            await self._ctx.services.calls.finish([run])


def _is_within(job_id: str, base: str) -> bool:
    """Whether a job is this one, or works beside it."""
    return job_id.partition(BESIDE)[0] == base
