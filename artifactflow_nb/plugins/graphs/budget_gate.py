"""Gate before the model calls of an adapted graph, which refuses every call that the run's budget does not allow.

LangChain calls a callback in the thread that calls the model, where the callback cannot wait for the store. The gate
therefore counts the usage of a call when the call ends, before the call is stored.
"""

import inspect
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler

from artifactflow_nb.core.budget import Budget, BudgetUsage, Price, cost_usd
from artifactflow_nb.core.clock_ids import CallTimes
from artifactflow_nb.plugins.graphs.fingerprint import ask_for_usage_of_call
from artifactflow_nb.plugins.graphs.messages import (
    checkpoint_namespace,
    deltas_from_chunk,
    model_name_of,
    model_reply,
    model_request,
    output_from_response,
)


class GraphHalted(BaseException):
    """The graph must stop. Not an `Exception`, so that error handlers in the graph do not catch it."""

    def __init__(self) -> None:
        super().__init__("The run came to its budget.")


class BudgetGate(BaseCallbackHandler):
    """Counts the usage of a graph's model calls while it runs, and refuses calls beyond the budget.

    After the first refusal the gate is closed: no further model call, tool or node starts, even if the graph handles
    the error. `before` is the usage of the run so far; `monotonic` is a clock, in seconds.

    Attributes:
        is_closed: Whether no further call or node may start.
        refused_calls: Start events of the refused model calls by run id.
        unreported_refusals: Ids of the refused calls for which `RefusalHandler` has to raise.
        unpriced_call: The model without a price, with its start event, if the cost is limited.
        calls: Start events of the started model calls by run id.
        replies: Outputs of the calls that have ended.
        tools: LangChain's tool call ids of the running tools by run id; events do not contain the ids.
        errors: Errors of model calls and nodes by run id; events do not contain the errors.
        times: Times of model calls and tools by run id; callbacks note the times, because events are handled later.
    """

    run_inline = True
    raise_error = True

    def __init__(
        self,
        limits: Budget | None,
        before: BudgetUsage,
        prices: Mapping[str, Price],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_closed = False
        self.refused_calls: dict[str, Mapping[str, Any]] = {}
        self.unreported_refusals: set[str] = set()
        self.unpriced_call: tuple[str, Mapping[str, Any]] | None = None
        self.calls: dict[str, Mapping[str, Any]] = {}
        self.replies: dict[str, Any] = {}
        self.tools: dict[str, str | None] = {}
        self.errors: dict[str, BaseException] = {}
        self.times: dict[str, CallTimes] = {}
        self._monotonic = monotonic
        self._limits = limits
        self._before = before
        self._prices = prices
        self._lock = threading.Lock()
        self._parents: dict[str, str] = {}
        self._usage_by_node: dict[str, BudgetUsage] = defaultdict(BudgetUsage)
        self._nodes: dict[str, str] = {}
        self._finished_nodes: set[str] = set()
        self._running: dict[str, float] = {}
        self._busy_since = self._busy_seconds = 0.0

    @property
    def callbacks(self) -> list[BaseCallbackHandler]:
        """The callbacks with which the graph must run."""
        return [self, RefusalHandler(self)]

    @property
    def usage(self) -> BudgetUsage:
        """The tokens, cost and time of the run so far."""
        total = self._before
        for usage in tuple(self._usage_by_node.values()):
            total = total.add(usage.model_copy(update={"seconds": 0.0}))  # parallel calls would count twice
        running = time.monotonic() - self._busy_since if self._running else 0.0
        return total.add(BudgetUsage(seconds=self._busy_seconds + running))

    @property
    def discarded_usage(self) -> BudgetUsage:
        """The part of the usage in unfinished nodes, which will start again."""
        total = BudgetUsage()
        for node, usage in tuple(self._usage_by_node.items()):
            total = total if node in self._finished_nodes else total.add(usage)
        return total

    def forget_call(self, key: str) -> None:
        """Drop a model call after it was stored."""
        for entries in (self.calls, self.replies, self.times):
            entries.pop(key, None)

    # --- models ------------------------------------------------------------------------------------------------------

    def on_chat_model_start(self, serialized: Any, messages: Sequence[Any], *, run_id: Any, **fields: Any) -> None:
        """Admit or refuse a call of a chat model."""
        if not self._admit({"messages": messages}, serialized, str(run_id), fields):
            # The arguments do not tell that a call is asynchronous; but a coroutine of LangChain reports such a call.
            caller = getattr(inspect.currentframe(), "f_back", None)
            if caller is None or not caller.f_code.co_flags & inspect.CO_COROUTINE:
                raise GraphHalted
            self.unreported_refusals.add(str(run_id))
        ask_for_usage_of_call(inspect.currentframe())

    def on_llm_start(self, serialized: Any, prompts: list[str], *, run_id: Any, **fields: Any) -> None:
        """Admit or refuse a call of a text completion model."""
        if not self._admit({"prompts": prompts}, serialized, str(run_id), fields):
            raise GraphHalted

    def _admit(self, inputs: Any, serialized: Mapping[str, Any] | None, key: str, fields: Mapping[str, Any]) -> bool:
        """Start or refuse a model call; return True if the call starts."""
        described = serialized or {}
        name = fields.get("name") or described.get("name") or next(reversed(described.get("id") or ["model"]))
        parents, parent = [], fields.get("parent_run_id")
        while parent is not None:
            parents.append(str(parent))
            parent = self._parents.get(str(parent))
        event = {
            "run_id": key,
            "name": str(name),
            "metadata": fields.get("metadata") or {},
            "parent_ids": parents[::-1],
            "data": {"input": inputs},
        }
        with self._lock:
            if self._limits is not None and self._limits.exceeded(self.usage):
                self.is_closed = True
            if self.is_closed:
                self.refused_calls[key] = event
            else:
                self.calls[key] = event
                self._start_timer(key)
            return not self.is_closed

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: Any, **_fields: Any) -> None:
        """Record the time of the first piece of a reply."""
        times = self.times.get(str(run_id))
        if times is not None and times.first_piece is None:
            message = getattr(chunk, "message", token)
            if token or any(True for _ in deltas_from_chunk(message)):
                times.first_piece = self._monotonic()

    def on_llm_end(self, response: Any, *, run_id: Any, **_fields: Any) -> None:
        """Count the usage of a model call."""
        key, output = str(run_id), output_from_response(response)
        with self._lock:
            seconds = self._stop_timer(key)
            if (event := self.calls.get(key)) is None:
                return
            self.replies[key] = output
            if self._limits is None:
                return
            model = model_name_of(event)
            reply = model_reply(output, model_request(event["data"]), model, None)
            cost = cost_usd(self._prices, (model, reply.model), reply.usage)
            if cost is None and self._limits.usd is not None:
                self.is_closed, self.unpriced_call = True, (reply.model, event)
            node = checkpoint_namespace(event["metadata"])
            usage = BudgetUsage(tokens=reply.usage.total_tokens, usd=cost or 0.0, seconds=seconds)
            self._usage_by_node[node] = self._usage_by_node[node].add(usage)

    def on_llm_error(self, error: BaseException, *, run_id: Any, **_fields: Any) -> None:
        """Record the error of a model call."""
        self.errors[str(run_id)] = error
        with self._lock:
            self._stop_timer(str(run_id))

    # --- tools and nodes ---------------------------------------------------------------------------------------------

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, **fields: Any) -> None:
        """Start a tool, unless the gate is closed."""
        del serialized, input_str
        self._note_parent(run_id, fields)
        if self.is_closed:
            raise GraphHalted
        self.tools[str(run_id)] = fields.get("tool_call_id")
        with self._lock:
            self._start_timer(str(run_id))

    def on_tool_end(self, output: Any, *, run_id: Any, **_fields: Any) -> None:
        """Stop the timer of a tool."""
        del output
        with self._lock:
            self._stop_timer(str(run_id))

    def on_tool_error(self, error: BaseException, *, run_id: Any, **_fields: Any) -> None:
        """Stop the timer of a tool."""
        del error
        with self._lock:
            self._stop_timer(str(run_id))

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **fields: Any) -> None:
        """Start a part of the graph; a node does not start if the gate is closed."""
        del serialized, inputs
        self._note_parent(run_id, fields)
        metadata = fields.get("metadata") or {}
        if fields.get("name") == metadata.get("langgraph_node"):
            if self.is_closed:
                raise GraphHalted
            self._nodes[str(run_id)] = checkpoint_namespace(metadata)

    def on_chain_end(self, outputs: Any, *, run_id: Any, **_fields: Any) -> None:
        """Record that a node has finished."""
        del outputs
        if (node := self._nodes.pop(str(run_id), None)) is not None:
            self._finished_nodes.add(node)

    def on_chain_error(self, error: BaseException, *, run_id: Any, **_fields: Any) -> None:
        """Record the error of a part of the graph."""
        self.errors[str(run_id)] = error

    def _note_parent(self, run_id: Any, fields: Mapping[str, Any]) -> None:
        if (parent := fields.get("parent_run_id")) is not None:
            self._parents[str(run_id)] = str(parent)

    # --- time --------------------------------------------------------------------------------------------------------

    def _start_timer(self, key: str) -> None:
        self.times[key] = CallTimes(self._monotonic())
        now = time.monotonic()
        if not self._running:
            self._busy_since = now
        self._running[key] = now

    def _stop_timer(self, key: str) -> float:
        """Return the seconds since the start of a model call or tool, or 0 if no timer is running."""
        if (times := self.times.get(key)) is not None:
            times.ended = self._monotonic()
        now = time.monotonic()
        if (started := self._running.pop(key, None)) is None:
            return 0.0
        if not self._running:
            self._busy_seconds += now - self._busy_since
        return now - started


class RefusalHandler(AsyncCallbackHandler):
    """Raises the refusal instead of the gate if a coroutine calls a chat model.

    In that case LangChain creates the coroutines of all callbacks before it awaits the first. The gate runs inline; an
    exception of the gate would leave the coroutines of other callbacks without an await.
    """

    raise_error = True
    ignore_llm = ignore_retry = ignore_chain = ignore_agent = ignore_retriever = ignore_custom_event = True

    def __init__(self, gate: BudgetGate) -> None:
        self._gate = gate

    async def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **_fields: Any) -> None:
        """Raise if the gate has refused this model call without raising."""
        del serialized, messages
        if str(run_id) in self._gate.unreported_refusals:
            raise GraphHalted
