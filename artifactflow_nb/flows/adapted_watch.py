"""What an adapted graph does, told by `astream_events` of LangGraph: model calls, tools, and what its nodes report.

The graph never waits for what is stored here; events are taken one after the other, in the order in which they came.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from artifactflow_nb.errors import RunCancelled
from artifactflow_nb.events import MAIN_JOB, StreamEventType
from artifactflow_nb.flows.adapted_calls import Caller, GraphCalls
from artifactflow_nb.flows.adapted_tools import GraphTools
from artifactflow_nb.flows.adapted_values import plain
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.spending import waits_for_budget
from artifactflow_nb.recordings.graph_steps import REPORTED, flaw_of_report

logger = logging.getLogger(__name__)

_DEFAULTS: Mapping[str, Any] = {"job_id": MAIN_JOB, "tool_call_id": "", "attempt": 1}


class Paused(Exception):
    """The graph may not go on before these requests are decided."""

    def __init__(self, requests: list[str]) -> None:
        super().__init__("The run paused at its budget.")
        self.requests = requests


class Failures(BaseCallbackHandler):
    """Notes what failed in a graph, which its stream of events does not tell."""

    run_inline = True

    def __init__(self) -> None:
        self.of: dict[str, BaseException] = {}

    def on_llm_error(self, error: BaseException, *, run_id: Any, **_told: Any) -> None:
        """Note that a model call failed."""
        self.of[str(run_id)] = error

    def on_chain_error(self, error: BaseException, *, run_id: Any, **_told: Any) -> None:
        """Note that a node failed, or what is in it."""
        self.of[str(run_id)] = error


class GraphWatch:
    """Takes in the events of one run's graph.

    Args:
        ctx: The run.
        name: Who acts where no node does.
        tools: The tool calls of the run.

    Attributes:
        failures: What has to be among the graph's callbacks.
        output: What the graph gave in the end; None before it.
        within: Where it interrupted within a tool: the tool's name, by the interrupt's id.
    """

    def __init__(self, ctx: RunContext, name: str, tools: GraphTools) -> None:
        self.failures = Failures()
        self.output: Any = None
        self.within: dict[str, str] = {}
        self._ctx = ctx
        self._name = name
        self._calls = GraphCalls(ctx)
        self._tools = tools
        self._nodes: dict[str, str] = {}
        self._spaces: dict[str, str] = {}
        self._takes: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[None]]] = {
            "on_chat_model_start": self._model_starts,
            "on_chat_model_stream": self._model_says,
            "on_chat_model_end": self._model_ends,
            "on_llm_start": self._model_starts,
            "on_llm_stream": self._model_says,
            "on_llm_end": self._model_ends,
            "on_tool_start": self._tool_starts,
            "on_tool_end": self._tool_ends,
            "on_tool_error": self._tool_fails,
            "on_chain_start": self._chain_starts,
            "on_chain_stream": self._chain_says,
            "on_chain_end": self._chain_ends,
            "on_custom_event": self._reported,
        }

    async def take(self, event: Mapping[str, Any]) -> None:
        """Take in the next event.

        Errors: `Paused` and `BudgetExceeded` before a model call that the budget does not allow.
        """
        if self.failures.of:
            await self._settle()
        if (takes := self._takes.get(event["event"])) is not None:
            await takes(event)

    async def _settle(self) -> None:
        """Store the model calls that failed, while the graph goes on."""
        for key in self._calls.open:
            if (error := self.failures.of.get(key)) is not None:
                await self._calls.fail(key, type(error).__name__, str(error), goes_on=True)

    async def stop(self, error: BaseException | None) -> None:
        """Store the model calls that were cut short, because the graph failed, or by whoever cancelled the run."""
        for key in self._calls.open:
            found = self.failures.of.get(key)
            cause = error if found is None or isinstance(found, asyncio.CancelledError) else found
            if cause is None:
                await self._calls.fail(key, RunCancelled.__name__, "The run was cancelled.")
            else:
                await self._calls.fail(key, type(cause).__name__, str(cause))

    def failed_node(self) -> str | None:
        """The node that failed; None if none did."""
        return next((self._nodes[key] for key in self.failures.of if key in self._nodes), None)

    # --- who does it -------------------------------------------------------------------------------------------------

    def _caller(self, event: Mapping[str, Any]) -> Caller:
        """The node that an event is of, and its job: that of the tool within which it works, or the main one."""
        space = str(event["metadata"].get("langgraph_checkpoint_ns") or "")
        for key in reversed(event["parent_ids"]):
            if (job_id := self._tools.job_of(key)) is not None:
                inner = space.removeprefix(self._spaces.get(key, "")).lstrip("|")
                return Caller(_node_of(inner) or self._tools.name_of(key), job_id)
        return Caller(_node_of(space) or self._name, MAIN_JOB)

    async def _chain_starts(self, event: Mapping[str, Any]) -> None:
        if event["name"] == event["metadata"].get("langgraph_node"):
            self._nodes[event["run_id"]] = self._caller(event).agent

    async def _chain_ends(self, event: Mapping[str, Any]) -> None:
        self._nodes.pop(event["run_id"], None)
        if not event["parent_ids"]:
            self.output = event["data"].get("output")

    # --- models ------------------------------------------------------------------------------------------------------

    async def _model_starts(self, event: Mapping[str, Any]) -> None:
        caller = self._caller(event)
        self._ctx.tape.clock.read(caller.job_id)
        if waiting := await waits_for_budget(self._ctx, caller.agent, caller.job_id):
            asked = await self._ctx.services.requests.decisions(waiting)
            raise Paused([one.request_id for one in asked.values()])
        await self._calls.begin(event["run_id"], caller, event)

    async def _model_says(self, event: Mapping[str, Any]) -> None:
        self._calls.piece(event["run_id"], event["data"]["chunk"])

    async def _model_ends(self, event: Mapping[str, Any]) -> None:
        calls = await self._calls.finish(event["run_id"], event["data"]["output"])
        if calls:
            self._tools.asked(calls[0].job_id, calls)

    # --- tools -------------------------------------------------------------------------------------------------------

    async def _tool_starts(self, event: Mapping[str, Any]) -> None:
        self._spaces[event["run_id"]] = str(event["metadata"].get("langgraph_checkpoint_ns") or "")
        await self._tools.start(event["run_id"], self._caller(event), event)

    async def _tool_ends(self, event: Mapping[str, Any]) -> None:
        await self._tools.finish(event["run_id"], event["data"].get("output"))

    async def _tool_fails(self, event: Mapping[str, Any]) -> None:
        error = event["data"]["error"]
        if isinstance(error, GraphInterrupt):
            self.within |= {one.id: event["name"] for one in error.args[0]}
            self._tools.pause(event["run_id"])
        elif isinstance(error, GraphBubbleUp):  # it sends the graph elsewhere
            await self._tools.finish(event["run_id"], "")
        else:
            await self._tools.fail(event["run_id"], error)

    # --- what nodes report -------------------------------------------------------------------------------------------

    async def _chain_says(self, event: Mapping[str, Any]) -> None:
        if event["parent_ids"]:
            return
        _, mode, said = event["data"]["chunk"]
        if mode == "custom" and isinstance(said, Mapping):
            self._report(str(said.get("type")), {key: said[key] for key in said if key != "type"}, self._name)

    async def _reported(self, event: Mapping[str, Any]) -> None:
        if isinstance(event["data"], Mapping):
            self._report(event["name"], event["data"], self._caller(event).agent)

    def _report(self, kind: str, data: Mapping[str, Any], agent: str) -> None:
        """Pass on what a node reports, if it is of a kind that is known and complete."""
        if kind not in REPORTED:
            return
        told = {**_DEFAULTS, **plain(data)}
        if flaw := flaw_of_report(kind, told):
            logger.warning("An event %s of the graph %s is not passed on: %s.", kind, self._name, flaw)
            return
        self._ctx.tape.clock.read(told["job_id"])
        self._ctx.journal.emit(StreamEventType(kind), told, agent=agent)


def _node_of(space: str) -> str:
    """The names of nodes in a checkpoint's namespace, from the outside in: `team:1f..|writer:2e..` is `team.writer`."""
    return ".".join(part.partition(":")[0] for part in space.split("|") if part and not part.isdigit())
