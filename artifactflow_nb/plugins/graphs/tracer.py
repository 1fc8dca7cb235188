"""Tracer of an adapted graph: stores and publishes the model calls, tools and node events that LangGraph reports.

The graph never waits for the store. Events are handled one at a time, in the order of their arrival.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.events import MAIN_JOB, StreamEventType, payload_problem
from artifactflow_nb.errors import RunCancelled, UsageError, brief
from artifactflow_nb.flows.budget import NO_USAGE, pending_budget_requests
from artifactflow_nb.flows.limits import load_run_budget
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.plugins.graphs.budget_gate import BudgetGate, GraphHalted
from artifactflow_nb.plugins.graphs.calls import Caller, GraphCalls, GraphTools
from artifactflow_nb.plugins.graphs.messages import call_ids, checkpoint_namespace, messages_in_state, to_plain_json
from artifactflow_nb.plugins.graphs.state import files_in, todos_in_output, write_files, write_plan

AGENT_NAME = "lc_agent_name"
"""The name of an agent in the metadata of its events, set by LangChain's `create_agent` and by deepagents."""

logger = logging.getLogger(__name__)


class GraphPaused(Exception):
    """The graph must not continue before the requests are decided."""

    def __init__(self, requests: list[str]) -> None:
        super().__init__("The run paused at its budget.")
        self.requests = requests


class GraphTracer:
    """Handles the events of a run's graph. `name` is the agent of events outside of nodes.

    Attributes:
        output: The graph's output; None before the end.
        interrupted_tools: Names of the tools within which the graph interrupted, by the interrupt's id.
        interrupted_agents: Names of the agents that interrupted, by the interrupt's id.
    """

    def __init__(self, ctx: RunContext, name: str, tools: GraphTools) -> None:
        self.output: Any = None
        self.interrupted_tools: dict[str, str] = {}
        self.interrupted_agents: dict[str, str] = {}
        self._ctx = ctx
        self._name = name
        self._calls = GraphCalls(ctx)
        self._tools = tools
        self._gate = BudgetGate(None, NO_USAGE, {})
        self._nodes: dict[str, str] = {}
        self._namespaces: dict[str, str] = {}
        self._tool_agents: dict[str, str | None] = {}
        self._agents: dict[str, str] = {}

    async def start(self) -> list[BaseCallbackHandler]:
        """Return the callbacks with which the graph must run.

        Errors: `BudgetExceeded` if a person has decided that the run must not exceed its budget.
        """
        limits, usage = None, NO_USAGE
        self._nodes.clear()
        if self._ctx.run.settings.get("budget") is not None:
            usage = await self._ctx.services.runs.budget_usage(self._ctx.run.run_id)
            limits = await load_run_budget(self._ctx, usage)
        allowed, prices = None if limits is None else limits.allowed, self._ctx.services.prices
        self._gate = BudgetGate(allowed, usage, prices, self._ctx.clock.monotonic)
        return self._gate.callbacks

    @property
    def is_halted(self) -> bool:
        """Whether the budget gate has stopped the graph."""
        return self._gate.is_closed

    async def handle_event(self, event: Mapping[str, Any]) -> None:
        """Store and publish an event."""
        await self._store_failed_calls()
        key, data = event["run_id"], event["data"]
        match event["event"]:
            case "on_chat_model_start" | "on_llm_start":
                if key not in self._gate.refused_calls:
                    caller = self._caller(event)
                    await self._tools.store_failures(namespace=checkpoint_namespace(event["metadata"]))
                    await self._store_results(caller, event)
                    await self._calls.begin(key, caller, event, self._gate.times.get(key))
            case "on_chat_model_stream" | "on_llm_stream":
                self._calls.publish_chunk(key, data["chunk"])
            case "on_chat_model_end" | "on_llm_end":
                await self._finish_call(key, data["output"])
            case "on_custom_event" if isinstance(data, Mapping):
                self._publish_node_event(event["name"], data, self._caller(event).agent)
            case kind if kind.startswith("on_tool_"):
                await self._handle_tool_event(event)
            case _:
                await self._handle_chain_event(event)

    async def _handle_tool_event(self, event: Mapping[str, Any]) -> None:
        """Handle the start, the end or the failure of a tool."""
        key, data = event["run_id"], event["data"]
        match event["event"]:
            case "on_tool_start":
                self._namespaces[key] = checkpoint_namespace(event["metadata"])
                self._tool_agents[key] = event["metadata"].get(AGENT_NAME)
                caller, times = self._caller(event), self._gate.times.get(key)
                self._agents[self._namespaces[key].rpartition("|")[0]] = caller.agent
                await self._tools.start(key, caller, event, self._gate.tools.pop(key, None), times)
            case "on_tool_end":
                opened, todos = self._tools.requested_call(key), todos_in_output(data.get("output"))
                if todos and opened is not None:
                    await write_plan(self._ctx, opened, todos)
                await self._tools.finish(key, data.get("output"))
            case "on_tool_error":
                error = data["error"]
                if isinstance(error, GraphInterrupt):
                    self.interrupted_tools |= {interrupt.id: event["name"] for interrupt in error.args[0]}
                    self._tools.pause(key)
                elif isinstance(error, GraphHalted):
                    pass  # the run pauses at its budget, and so does every running tool
                elif isinstance(error, GraphBubbleUp):  # no failure: the exception sends the graph to another node
                    await self._tools.finish(key, "")
                else:
                    await self._tools.fail(key, error, event)

    async def _handle_chain_event(self, event: Mapping[str, Any]) -> None:
        """Handle an event of the graph, or of a part of it."""
        key, data = event["run_id"], event["data"]
        match event["event"]:
            case "on_chain_start" if event["name"] == event["metadata"].get("langgraph_node"):
                self._nodes[key] = self._caller(event).agent
            case "on_chain_stream" if not event["parent_ids"]:
                namespace, mode, payload = data["chunk"]
                if mode == "updates" and isinstance(payload, Mapping):
                    for update in payload.values():
                        for each in update if isinstance(update, list) else [update]:
                            if files := files_in(each):
                                await write_files(self._ctx, files, self._agents.get("|".join(namespace), self._name))
                elif mode == "custom" and isinstance(payload, Mapping):
                    fields = {name: payload[name] for name in payload if name != "type"}
                    self._publish_node_event(str(payload.get("type")), fields, self._name)
            case "on_chain_end":
                self._nodes.pop(key, None)
                await self._tools.store_failures(parent_id=key)
                if not event["parent_ids"]:
                    self.output = data.get("output")
                    await self._tools.store_results(messages_in_state(self.output))

    def _caller(self, event: Mapping[str, Any]) -> Caller:
        """Return the agent and the job of an event: the job is within the innermost running tool, or the main job.

        The name of the agent is LangChain's name, or else the node's name. The events of a graph within a tool inherit
        the name of the agent that called the tool, so an inherited name is ignored.
        """
        metadata, namespace = event["metadata"], checkpoint_namespace(event["metadata"])
        for key in reversed(event["parent_ids"]):
            if (job := self._tools.running_job(key)) is not None:
                job_id, tool = job
                inner = namespace.removeprefix(self._namespaces.get(key, "")).lstrip("|")
                name = metadata.get(AGENT_NAME)
                has_own_name = name and name != self._tool_agents.get(key)
                return Caller(str(name) if has_own_name else _node_path(inner) or tool, job_id)
        if AGENT_NAME in metadata:  # None for a deep agent without a name
            return Caller(str(metadata[AGENT_NAME] or self._name), MAIN_JOB)
        return Caller(_node_path(namespace) or self._name, MAIN_JOB)

    async def _store_results(self, caller: Caller, event: Mapping[str, Any]) -> None:
        """Store the tool results that the prompt of a model call contains."""
        for conversation in (event["data"].get("input") or {}).get("messages") or ():
            await self._tools.store_results(conversation, caller.job_id)

    async def _finish_call(self, key: str, output: Any) -> None:
        calls = await self._calls.finish(key, output)
        self._gate.forget_call(key)
        if calls:
            await self._tools.register_calls(calls[0].job_id, calls, call_ids(output))

    def _publish_node_event(self, kind: str, data: Mapping[str, Any], agent: str) -> None:
        """Publish an event that a node reports, if the type is allowed and the payload is valid."""
        if kind not in NODE_EVENT_FIELDS:
            return
        defaults = {"job_id": MAIN_JOB, "tool_call_id": "", "attempt": 1}
        payload = {**defaults, **self._ctx.secrets.value(to_plain_json(data))}
        missing = next((f"it has no {name}" for name in NODE_EVENT_FIELDS[kind] if name not in payload), None)
        if problem := missing or payload_problem(payload):
            logger.warning("An event %s of the graph %s is not passed on: %s.", kind, self._name, problem)
            return
        self._ctx.event_writer.emit(StreamEventType(kind), payload, agent=agent)

    # --- the end -----------------------------------------------------------------------------------------------------

    async def _store_failed_calls(self) -> None:
        """Store the model calls that failed while the graph continues."""
        for key in self._calls.open_calls if self._gate.errors else ():
            if (error := self._gate.errors.get(key)) is not None:
                await self._calls.fail(key, type(error).__name__, str(error), graph_continues=True)
                self._gate.forget_call(key)

    async def _store_unreported(self) -> None:
        """Store the model calls of which no event reported the start or the end.

        Events stop when the run is stopped. A text completion model that a coroutine calls has no events.
        """
        await self._tools.store_failures()
        for key, event in tuple(self._gate.calls.items()):
            if key not in self._calls.open_calls:
                await self._calls.begin(key, self._caller(event), event, self._gate.times.get(key))
            if key in self._gate.replies:
                await self._finish_call(key, self._gate.replies[key])

    async def finish(self) -> None:
        """Store the open model calls of a graph that has ended or interrupted."""
        for key, error in self._gate.errors.items():
            if isinstance(error, GraphInterrupt) and key in self._nodes:
                for interrupt in error.args[0]:  # the innermost node reports the interrupt first
                    self.interrupted_agents.setdefault(interrupt.id, self._nodes[key])
        await self._store_unreported()
        await self._store_failed_calls()
        for key in self._calls.open_calls:
            problem = "The graph ended before it had read the whole reply."
            await self._calls.fail(key, GeneratorExit.__name__, problem, graph_continues=True)

    async def stop(self, error: BaseException | None, *, graph_continues: bool = False) -> None:
        """Store the open model calls of a graph that was stopped by an error, or was cancelled (no error).

        If the graph continues, its unfinished nodes and their tools start again.
        """
        if graph_continues:
            self._tools.pause_all()
        await self._store_unreported()
        for key in self._calls.open_calls:
            own = self._gate.errors.get(key)
            cause = error if own is None or isinstance(own, asyncio.CancelledError) else own
            if cause is None:
                await self._calls.fail(key, RunCancelled.__name__, "The run was cancelled.")
            else:
                await self._calls.fail(key, type(cause).__name__, str(cause), graph_continues=graph_continues)

    async def settle_halt(self) -> None:
        """Decide how a run that was stopped by the gate continues; return if the run may continue.

        Errors: `GraphPaused` if a person must decide; `BudgetExceeded` if the run must end; `UsageError` if the
        cost is limited and a model has no price, because the limit would never be reached.
        """
        budget = Budget.from_limits(self._ctx.run.settings["budget"])
        callers = [self._caller(event) for event in self._gate.refused_calls.values()]
        for caller, event in zip(callers, self._gate.refused_calls.values(), strict=True):
            await self._store_results(caller, event)
        await self.stop(GraphHalted(), graph_continues=budget.when_spent == "ask")
        self._tools.pause_all()
        if self._gate.unpriced_call is not None:
            model, event = self._gate.unpriced_call
            raise UsageError(
                f"The budget limits the cost, and there is no price for the model {brief(model)} of "
                f"{self._caller(event).agent}. Pass prices={{{brief(model)}: {{'input': ..., 'output': ...}}}}, in US "
                "dollars for a million tokens."
            )
        if callers:
            agent, job_id = callers[0].agent, callers[0].job_id
            usage = {"at_least": self._gate.usage, "void": self._gate.discarded_usage}
            if waiting := await pending_budget_requests(self._ctx, agent, job_id, **usage):
                requests = await self._ctx.services.approvals.decisions(waiting)
                raise GraphPaused([request.request_id for request in requests.values()])

    def failed_node(self, error: BaseException) -> str | None:
        """Return the node that raised an error, or None."""
        keys = [key for key, node_error in self._gate.errors.items() if node_error is error]
        return next((self._nodes[key] for key in keys if key in self._nodes), None)


def _node_path(namespace: str) -> str:
    """Return the nodes of a checkpoint namespace from the outside in: `team:1f..|writer:2e..` is `team.writer`.

    Nodes of LangChain's middleware, such as `HumanInTheLoopMiddleware.after_model`, belong to the agent's node `model`.
    """
    names = (part.partition(":")[0] for part in namespace.split("|"))  # empty for a call of a tool node at the top
    nodes = [node for node in names if node and not node.isdigit()]
    return ".".join("model" if node.endswith((".before_model", ".after_model")) else node for node in nodes)


# --- events that nodes report ----------------------------------------------------------------------------------------

NODE_EVENT_FIELDS: Mapping[str, tuple[str, ...]] = {
    StreamEventType.PLAN_CREATED: ("plan_id", "title", "steps"),
    StreamEventType.PLAN_UPDATED: ("plan_id", "reason", "steps"),
    StreamEventType.PLAN_REVISED: ("plan_id", "reason", "steps"),
    StreamEventType.STEP_START: ("plan_id", "step_id", "title"),
    StreamEventType.STEP_COMPLETE: ("plan_id", "step_id", "title", "status"),
}
"""Types that nodes may report through the stream writer or as custom events, with their required fields.

The package itself publishes all other types, never a node.
"""
