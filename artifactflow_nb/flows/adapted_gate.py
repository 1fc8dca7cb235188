"""The gate before the model calls of an adapted graph: none is made that the run's budget does not allow.

LangChain tells its callbacks that a model is about to be asked in the very thread that asks, and none of them can wait
there for the store. So what calls cost is counted here as they end, before they are stored.
"""

import inspect
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler

from artifactflow_nb.budget import Budget, Price, Spent, cost_usd
from artifactflow_nb.flows.adapted_calls import model_of
from artifactflow_nb.flows.adapted_values import output_of, reply_of, request_of, space_of


class Halted(BaseException):
    """The graph may not go on. It is no `Exception`: what handles errors in a graph does not handle this one."""

    def __init__(self) -> None:
        super().__init__("The run came to its budget.")


class Gate(BaseCallbackHandler):
    """Counts what the model calls of a graph cost while it runs, and refuses what goes beyond.

    Once it has refused anything it is shut: no other model call, no tool and no node begins, whatever the graph makes
    of the refusal.

    Args:
        limits: What the run may spend; None for as much as it likes.
        before: What it had spent before.
        prices: What tokens cost, by model.

    Attributes:
        is_shut: Whether nothing may begin any more.
        refused: The model calls that were refused, as events tell of their beginning, by the ids that LangChain gives.
        unsaid: Those of them that `Refusal` has to refuse.
        unpriced: The model whose price is not known though the cost is limited, and the event of its call.
        calls: The model calls that have begun, as events tell it.
        replies: What came of those of them that are over.
        tools: The ids of the tool calls for which tools are at work, which events do not tell.
    """

    run_inline = True
    raise_error = True

    def __init__(self, limits: Budget | None, before: Spent, prices: Mapping[str, Price]) -> None:
        self.is_shut = False
        self.refused: dict[str, Mapping[str, Any]] = {}
        self.unsaid: set[str] = set()
        self.unpriced: tuple[str, Mapping[str, Any]] | None = None
        self.calls: dict[str, Mapping[str, Any]] = {}
        self.replies: dict[str, Any] = {}
        self.tools: dict[str, str | None] = {}
        self._limits = limits
        self._before = before
        self._prices = prices
        self._lock = threading.Lock()
        self._parents: dict[str, str] = {}
        self._spent: dict[str, Spent] = defaultdict(Spent)
        self._nodes: dict[str, str] = {}
        self._done: set[str] = set()
        self._at_work: dict[str, float] = {}
        self._since = self._seconds = 0.0

    @property
    def callbacks(self) -> list[BaseCallbackHandler]:
        """What has to be among the graph's callbacks."""
        return [self, Refusal(self)]

    @property
    def spent(self) -> Spent:
        """What the run has spent."""
        total = self._before
        for spent in tuple(self._spent.values()):
            total = total.plus(spent.model_copy(update={"seconds": 0.0}))
        now = time.monotonic() - self._since if self._at_work else 0.0
        return total.plus(Spent(seconds=self._seconds + now))

    @property
    def void(self) -> Spent:
        """What of it went into nodes that did not come to their end, which will begin anew."""
        total = Spent()
        for node, spent in tuple(self._spent.items()):
            total = total if node in self._done else total.plus(spent)
        return total

    # --- models ------------------------------------------------------------------------------------------------------

    def on_chat_model_start(self, serialized: Any, messages: Sequence[Any], *, run_id: Any, **told: Any) -> None:
        """Let a model call begin, or refuse it."""
        if not self._begins({"messages": messages}, serialized, str(run_id), told):
            if not _is_told_by_a_coroutine():
                raise Halted
            self.unsaid.add(str(run_id))

    def on_llm_start(self, serialized: Any, prompts: list[str], *, run_id: Any, **told: Any) -> None:
        """Let a call of a model that completes text begin, or refuse it."""
        if not self._begins({"prompts": prompts}, serialized, str(run_id), told):
            raise Halted

    def _begins(self, given: Any, serialized: Any, key: str, told: Mapping[str, Any]) -> bool:
        """Whether a model call begins; otherwise it is refused."""
        event = {
            "run_id": key,
            "name": told.get("name") or _name_of(serialized),
            "metadata": told.get("metadata") or {},
            "parent_ids": self._above(told.get("parent_run_id")),
            "data": {"input": given},
        }
        with self._lock:
            if self._limits is not None and self._limits.exceeded(self.spent):
                self.is_shut = True
            if self.is_shut:
                self.refused[key] = event
            else:
                self.calls[key] = event
                self._begin(key)
            return not self.is_shut

    def on_llm_end(self, response: Any, *, run_id: Any, **_told: Any) -> None:
        """Count what a model call cost."""
        key, output = str(run_id), output_of(response)
        with self._lock:
            seconds = self._end(key)
            if (event := self.calls.get(key)) is None:
                return
            self.replies[key] = output
            if self._limits is not None:
                self._count(event, output, seconds)

    def _count(self, event: Mapping[str, Any], output: Any, seconds: float) -> None:
        model = model_of(event)
        reply = reply_of(output, request_of(event["data"]), model, None)
        cost = cost_usd(self._prices, (model, reply.model), reply.usage)
        if cost is None and self._limits is not None and self._limits.usd is not None:
            self.is_shut, self.unpriced = True, (reply.model, event)
        node = space_of(event["metadata"])
        spent = Spent(tokens=reply.usage.total_tokens, usd=cost or 0.0, seconds=seconds)
        self._spent[node] = self._spent[node].plus(spent)

    def on_llm_error(self, error: BaseException, *, run_id: Any, **_told: Any) -> None:
        """Note that a model call is over."""
        del error
        with self._lock:
            self._end(str(run_id))

    def settled(self, key: str) -> None:
        """Forget a model call: it is stored."""
        self.calls.pop(key, None)
        self.replies.pop(key, None)

    # --- tools and nodes ---------------------------------------------------------------------------------------------

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, **told: Any) -> None:
        """Note that a tool is at work, unless nothing may begin any more."""
        del serialized, input_str
        self._place(run_id, told)
        if self.is_shut:
            raise Halted
        self.tools[str(run_id)] = told.get("tool_call_id")
        with self._lock:
            self._begin(str(run_id))

    def on_tool_end(self, output: Any, *, run_id: Any, **_told: Any) -> None:
        """Note that a tool is done."""
        del output
        with self._lock:
            self._end(str(run_id))

    def on_tool_error(self, error: BaseException, *, run_id: Any, **_told: Any) -> None:
        """Note that a tool failed."""
        del error
        with self._lock:
            self._end(str(run_id))

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **told: Any) -> None:
        """Note where a part of the graph stands; a node does not begin if nothing may."""
        del serialized, inputs
        self._place(run_id, told)
        metadata = told.get("metadata") or {}
        if told.get("name") == metadata.get("langgraph_node"):
            if self.is_shut:
                raise Halted
            self._nodes[str(run_id)] = space_of(metadata)

    def on_chain_end(self, outputs: Any, *, run_id: Any, **_told: Any) -> None:
        """Note that a node came to its end."""
        del outputs
        if (node := self._nodes.pop(str(run_id), None)) is not None:
            self._done.add(node)

    def _place(self, run_id: Any, told: Mapping[str, Any]) -> None:
        if (parent := told.get("parent_run_id")) is not None:
            self._parents[str(run_id)] = str(parent)

    def _above(self, parent: Any) -> list[str]:
        """What a call is part of, from the outside in."""
        found, key = [], None if parent is None else str(parent)
        while key is not None:
            found.append(key)
            key = self._parents.get(key)
        return found[::-1]

    # --- time --------------------------------------------------------------------------------------------------------

    def _begin(self, key: str) -> None:
        now = time.monotonic()
        if not self._at_work:
            self._since = now
        self._at_work[key] = now

    def _end(self, key: str) -> float:
        """Note that something is not at work any more; for how many seconds it was."""
        now = time.monotonic()
        if (begun := self._at_work.pop(key, None)) is None:
            return 0.0
        if not self._at_work:
            self._seconds += now - self._since
        return now - begun


class Refusal(AsyncCallbackHandler):
    """Raises in the gate's place where a chat model is asked by a coroutine.

    There LangChain prepares what it tells each callback before it tells the first, so the gate, which is told at once,
    must not raise: the others would be left behind.

    Args:
        gate: The gate.
    """

    raise_error = True
    ignore_llm = ignore_retry = ignore_chain = ignore_agent = ignore_retriever = ignore_custom_event = True

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **_told: Any) -> None:
        """Raise if the gate has refused this model call and could not say so."""
        del serialized, messages
        if str(run_id) in self._gate.unsaid:
            raise Halted


def _is_told_by_a_coroutine() -> bool:
    """Whether who called the caller of this is a coroutine: so LangChain tells callbacks of what a coroutine does.

    Nothing that it passes says so, and the order in which callbacks are told is not kept.
    """
    frame = inspect.currentframe()
    told = frame and frame.f_back and frame.f_back.f_back
    return told is not None and bool(told.f_code.co_flags & inspect.CO_COROUTINE)


def _name_of(serialized: Mapping[str, Any] | None) -> str:
    told = serialized or {}
    return str(told.get("name") or next(reversed(told.get("id") or ["model"])))
