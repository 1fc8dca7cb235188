"""Several tool calls of one `ToolNode` that interrupt: each call gets the answer to its own question and ends once.

LangGraph runs the calls of a tool node at the same time, in one task. The calls share one list of answers, and an
answer belongs to the interrupt that comes first, so two tools get each other's answers (langchain-ai/langgraph#6533 and
#6624). Only the first interrupt is stored, and calls that have ended run again with the node.

Here each call has a scratchpad of its own: LangGraph's object for the answers and the number of interrupts. The node
interrupts with the questions of all its calls, once every call has ended or interrupted. The outputs of the calls, and
the answers to the calls, are stored beside the checkpoint, in the channel of LangGraph's answers, under a task id that
LangGraph does not read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from langgraph.errors import GraphInterrupt
from langgraph.prebuilt import ToolNode
from langgraph.types import Interrupt

from artifactflow_nb.plugins.graphs.fingerprint import graph_parts
from artifactflow_nb.plugins.graphs.interrupts import RESUME_CHANNEL

if TYPE_CHECKING:
    from langgraph.prebuilt.tool_node import ToolCallRequest

    Execute = Callable[[ToolCallRequest], Awaitable[Any]]
    Wrapper = Callable[[ToolCallRequest, Execute], Awaitable[Any]]

_SCRATCHPAD, _RESUME_MAP = "__pregel_scratchpad", "__pregel_resume_map"
_CHECKPOINTER, _TASK_ID = "__pregel_checkpointer", "__pregel_task_id"


def separate_calls(graph: Any) -> None:
    """Let the calls of all tool nodes in a graph interrupt independently; a second call changes nothing.

    A node with its own synchronous wrapper does not change, because LangGraph calls only one wrapper.
    """
    for part in graph_parts(graph):
        if not isinstance(part, ToolNode) or part._wrap_tool_call is not None:  # noqa: SLF001 - no public access
            continue
        if not isinstance(part._awrap_tool_call, _SeparateCalls):  # noqa: SLF001
            part._awrap_tool_call = _SeparateCalls(part._awrap_tool_call)  # noqa: SLF001


@dataclass
class _NodeRun:
    """One execution of a tool node: LangGraph's scratchpad, and the outputs and questions of the calls.

    Attributes:
        calls: The state of each call by its id: `answers`, the oldest first; `question`, the id of the open
            interrupt; `output`, once the call has ended.
        questions: The interrupts of each call that has interrupted.
        n_open: The number of calls that have neither ended nor interrupted.
        is_over: Set when no call is open.
    """

    scratchpad: Any
    calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    questions: dict[str, Sequence[Interrupt]] = field(default_factory=dict)
    n_open: int = 0
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    _loading: "asyncio.Task[None] | None" = None

    async def load(self, settings: dict[str, Any]) -> None:
        """Read the states of the calls from the execution before, once for all calls."""
        self._loading = self._loading or asyncio.create_task(self._load(settings))
        await self._loading

    async def _load(self, settings: dict[str, Any]) -> None:
        saver = settings.get(_CHECKPOINTER)
        if saver is not None and settings.get(_RESUME_MAP) and (saved := await saver.aget_tuple(_place(settings))):
            for writer, _, value in saved.pending_writes or ():
                if writer == _writer(settings) and value:
                    self.calls = value[0]

    async def finish(self, settings: dict[str, Any]) -> None:
        """Store the states of the calls if a call has interrupted, and let the calls return."""
        try:
            if self.questions and (saver := settings.get(_CHECKPOINTER)) is not None:
                await saver.aput_writes(_place(settings), [(RESUME_CHANNEL, [self.calls])], _writer(settings))
        finally:
            self.is_over.set()


class _SeparateCalls:
    """The wrapper of a tool node's calls, around the wrapper that the node had before."""

    def __init__(self, wrapper: "Wrapper | None") -> None:
        self._wrapper = wrapper
        self._runs: dict[int, _NodeRun] = {}

    async def __call__(self, request: "ToolCallRequest", execute: "Execute") -> Any:
        settings = request.runtime.config.get("configurable", {})
        scratchpad = settings.get(_SCRATCHPAD)
        if scratchpad is None:  # the node was called outside of a graph
            return await self._execute(request, execute)
        node_run = self._runs.setdefault(id(scratchpad), _NodeRun(scratchpad))
        node_run.n_open += 1
        try:
            await node_run.load(settings)  # all calls of the node have begun when the first call continues
            output = await self._run_call(node_run, request, execute, settings)
        finally:
            node_run.n_open -= 1
            if not node_run.n_open:
                self._runs.pop(id(scratchpad), None)
                await node_run.finish(settings)
        await node_run.is_over.wait()
        if node_run.questions:
            in_order = (node_run.questions.get(call_id, ()) for call_id in node_run.calls)
            raise GraphInterrupt(tuple(chain.from_iterable(in_order)))
        return output

    async def _run_call(
        self, node_run: _NodeRun, request: "ToolCallRequest", execute: "Execute", settings: dict[str, Any]
    ) -> Any:
        """Run a call with its own answers, unless the call has ended before; return None if the call interrupts."""
        call_id = request.tool_call["id"] or ""
        call = node_run.calls.setdefault(call_id, {"answers": []})
        if "output" in call:
            return call["output"]
        decided = settings.get(_RESUME_MAP) or {}
        if (question := call.get("question")) in decided:
            call = node_run.calls[call_id] = {"answers": [*call["answers"], decided[question]]}
        number = count()
        own = replace(node_run.scratchpad, interrupt_counter=lambda: next(number), resume=list(call["answers"]))
        # The call gets a copy of the configuration, whose settings are shared. The namespace determines interrupt ids.
        namespace = f"{settings['checkpoint_ns']}:{call_id}"
        request.runtime.config["configurable"] = {**settings, _SCRATCHPAD: own, "checkpoint_ns": namespace}
        try:
            call["output"] = await self._execute(request, execute)
        except GraphInterrupt as interrupt:
            node_run.questions[call_id] = interrupt.args[0]
            call["question"] = interrupt.args[0][0].id
        return call.get("output")

    async def _execute(self, request: "ToolCallRequest", execute: "Execute") -> Any:
        return await (execute(request) if self._wrapper is None else self._wrapper(request, execute))


def _place(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the checkpoint from which the task of these settings started."""
    namespace = settings["checkpoint_ns"].rpartition("|")[0]
    checkpoint = {"checkpoint_ns": namespace, "checkpoint_id": settings["checkpoint_map"][namespace]}
    return {"configurable": {"thread_id": settings["thread_id"], **checkpoint}}


def _writer(settings: dict[str, Any]) -> str:
    return f"{settings[_TASK_ID]}:calls"
