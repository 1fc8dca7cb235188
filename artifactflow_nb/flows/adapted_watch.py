"""What an adapted graph does, told by `astream_events` of LangGraph: model calls, tools, and what its nodes report.

The graph never waits for what is stored here; events are taken one after the other, in the order in which they came.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from artifactflow_nb.budget import Budget
from artifactflow_nb.errors import RunCancelled, UsageError
from artifactflow_nb.events import MAIN_JOB, StreamEventType
from artifactflow_nb.flows.adapted_calls import Caller, GraphCalls
from artifactflow_nb.flows.adapted_gate import Gate, Halted
from artifactflow_nb.flows.adapted_tools import GraphTools
from artifactflow_nb.flows.adapted_values import call_ids, conversation_of, plain, space_of
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.spending import NOTHING, limits_of, waits_for_budget
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
        output: What the graph gave in the end; None before it.
        within: Where it interrupted within a tool: the tool's name, by the interrupt's id.
    """

    def __init__(self, ctx: RunContext, name: str, tools: GraphTools) -> None:
        self.output: Any = None
        self.within: dict[str, str] = {}
        self._ctx = ctx
        self._name = name
        self._calls = GraphCalls(ctx)
        self._tools = tools
        self._failures = Failures()
        self._gate = Gate(None, NOTHING, {})
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

    async def enter(self) -> list[BaseCallbackHandler]:
        """What has to be among the graph's callbacks, now that it is to run.

        Errors: `BudgetExceeded` if a person said that it must not.
        """
        self._failures, limits, spent = Failures(), None, NOTHING
        self._nodes.clear()
        if self._ctx.run.settings.get("budget") is not None:
            spent = await self._ctx.services.runs.spent(self._ctx.run.run_id)
            limits = await limits_of(self._ctx, spent)
        self._gate = Gate(None if limits is None else limits.allowed, spent, self._ctx.services.prices)
        return [*self._gate.callbacks, self._failures]

    @property
    def is_halted(self) -> bool:
        """Whether the graph may not go on as it stands."""
        return self._gate.is_shut

    async def take(self, event: Mapping[str, Any]) -> None:
        """Take in the next event."""
        if self._failures.of:
            await self._settle()
        if (takes := self._takes.get(event["event"])) is not None:
            await takes(event)

    async def _settle(self) -> None:
        """Store the model calls that failed, while the graph goes on."""
        for key in self._calls.open:
            if (error := self._failures.of.get(key)) is not None:
                await self._calls.fail(key, type(error).__name__, str(error), goes_on=True)
                self._gate.settled(key)

    async def stop(self, error: BaseException | None, *, goes_on: bool = False) -> None:
        """Store the model calls that were cut short: the graph failed or may not go on, or somebody cancelled the run.

        Of those, also what no event has told yet.
        """
        await self._catch_up()
        for key in self._calls.open:
            found = self._failures.of.get(key)
            cause = error if found is None or isinstance(found, asyncio.CancelledError) else found
            if cause is None:
                await self._calls.fail(key, RunCancelled.__name__, "The run was cancelled.")
            else:
                await self._calls.fail(key, type(cause).__name__, str(cause), goes_on=goes_on)

    async def end(self) -> None:
        """Store what the graph leaves of model calls that came to its end, or interrupted."""
        await self._catch_up()
        await self._settle()
        for key in self._calls.open:
            unread = "The graph came to its end and had not read the reply to the end."
            await self._calls.fail(key, GeneratorExit.__name__, unread, goes_on=True)

    async def _catch_up(self) -> None:
        """Take in what events have not told of model calls.

        They will not, if the run is stopped; and never do of a model that completes text and is asked by a coroutine.
        """
        await self._tools.settle()
        for key, event in tuple(self._gate.calls.items()):
            if key not in self._calls.open:
                await self._calls.begin(key, self._caller(event), event)
            if key in self._gate.replies:
                await self._finish(key, self._gate.replies[key])

    async def halt(self) -> None:
        """Find out how a run goes on that the gate has stopped: it returns if it may.

        Errors: `Paused` if that is to be decided; `BudgetExceeded` if it may not; `UsageError` if the run's cost is
        limited and a call has no price, so that the limit would never be reached.
        """
        budget = Budget.of(self._ctx.run.settings["budget"])
        callers = [self._caller(refused) for refused in self._gate.refused.values()]
        for caller, refused in zip(callers, self._gate.refused.values(), strict=True):
            await self._answered(caller, refused)
        await self.stop(Halted(), goes_on=budget.when_spent == "ask")
        self._tools.pause_all()
        if self._gate.unpriced is not None:
            model, event = self._gate.unpriced
            raise UsageError(
                f"The budget limits the cost, and there is no price for the model {model!r} of "
                f"{self._caller(event).agent}. Pass prices={{{model!r}: {{'input': ..., 'output': ...}}}}, in US "
                "dollars for a million tokens."
            )
        if callers:
            await self._wait(callers[0])

    async def _wait(self, caller: Caller) -> None:
        self._ctx.tape.clock.read(caller.job_id)
        known = {"at_least": self._gate.spent, "void": self._gate.void}
        if waiting := await waits_for_budget(self._ctx, caller.agent, caller.job_id, **known):
            asked = await self._ctx.services.requests.decisions(waiting)
            raise Paused([one.request_id for one in asked.values()])

    def failed_node(self, error: BaseException) -> str | None:
        """The node that failed, if this is why the graph did; None if none did."""
        if error not in self._failures.of.values():
            return None
        return next((self._nodes[key] for key in self._failures.of if key in self._nodes), None)

    # --- who does it -------------------------------------------------------------------------------------------------

    def _caller(self, event: Mapping[str, Any]) -> Caller:
        """The node that an event is of, and its job: that of the tool within which it works, or the main one."""
        space = space_of(event["metadata"])
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
        await self._tools.settle(within=event["run_id"])
        if not event["parent_ids"]:
            self.output = event["data"].get("output")
            await self._tools.answered(conversation_of(self.output))

    # --- models ------------------------------------------------------------------------------------------------------

    async def _model_starts(self, event: Mapping[str, Any]) -> None:
        if event["run_id"] in self._gate.refused:
            return
        caller = self._caller(event)
        await self._tools.settle(space=space_of(event["metadata"]))
        await self._answered(caller, event)
        await self._calls.begin(event["run_id"], caller, event)

    async def _answered(self, caller: Caller, event: Mapping[str, Any]) -> None:
        for conversation in (event["data"].get("input") or {}).get("messages") or ():
            await self._tools.answered(conversation, caller.job_id)

    async def _model_says(self, event: Mapping[str, Any]) -> None:
        self._calls.piece(event["run_id"], event["data"]["chunk"])

    async def _model_ends(self, event: Mapping[str, Any]) -> None:
        await self._finish(event["run_id"], event["data"]["output"])

    async def _finish(self, key: str, output: Any) -> None:
        calls = await self._calls.finish(key, output)
        self._gate.settled(key)
        if calls:
            await self._tools.asked(calls[0].job_id, calls, call_ids(output))

    # --- tools -------------------------------------------------------------------------------------------------------

    async def _tool_starts(self, event: Mapping[str, Any]) -> None:
        self._spaces[event["run_id"]] = space_of(event["metadata"])
        known = self._gate.tools.pop(event["run_id"], None)
        await self._tools.start(event["run_id"], self._caller(event), event, known)

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
            await self._tools.fail(event["run_id"], error, event)

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
