"""The plan flow: the loop of an agent whose calls of `plan_create` are executed by a graph of their own.

::

    START -> agent --respond--> END
               |  plan_create
               v
              gate --rejected--> agent, with the reason
               |  approved, edited, or no approval needed
               v
           executor <---- continue, retry, revise ---- replanner
               |  ^ status decides                        ^ |
               +--+----------------- else ----------------+ | finish
               +--- all done, or a limit ---> summarizer <--+
                                                   |
                                                   v
                                       agent (the plan's report is the result of its call)

Each step, each replanning and the summary are jobs with a loop of their own; only the report is returned to the
transcript of the agent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from artifactflow_nb.agents.base import PromptContext
from artifactflow_nb.core.approvals import ApprovalPolicy
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.plan import (
    PLAN_CREATE_TOOL,
    PLAN_DECIDE_TOOL,
    Plan,
    PlanJob,
    PlanProgress,
    PlanRules,
    PlanStep,
    assign_step_ids,
    plan_id,
)
from artifactflow_nb.errors import ToolError, describe_error
from artifactflow_nb.flows.base import FlowSpec
from artifactflow_nb.flows.loop import (
    Delegate,
    JobOutcome,
    LoopGraph,
    build_loop,
    job_loop,
    last_call,
    run_job,
    start_of_job,
    subagent_delegate,
)
from artifactflow_nb.flows.plan import PLAN
from artifactflow_nb.flows.plan.agents import (
    EXECUTOR,
    PLAN_AGENTS,
    PLAN_CONFIG,
    REPLANNER,
    SUMMARIZER,
    plan_result,
    replanner_task,
    step_task,
    summary_task,
)
from artifactflow_nb.flows.plan.ledger import (
    EventSpec,
    PlanLedger,
    abort_plans,
    finish_job,
    plan_updated_event,
    step_payloads,
)
from artifactflow_nb.flows.plan.tools import (
    REPORT_FAILURE_TOOL,
    RESERVED_PLAN,
    PlanDecision,
    PlanDraft,
    PlanPolicy,
    plan_decide,
    plan_rules,
    refusal_reason,
    with_step_tools,
)
from artifactflow_nb.flows.services import RunContext, Services
from artifactflow_nb.flows.state import AgentState
from artifactflow_nb.flows.turn import ContextManager
from artifactflow_nb.store.plans import PlanEdit, PlanTransition
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.tools.artifacts import ReservedArtifacts
from artifactflow_nb.tools.base import Tool, ToolPermission
from artifactflow_nb.tools.lead import call_subagent

_TOO_LATE = "The plan was over by then."
"""The reason for skipping a step that a person adds when all other steps are done."""

_NODES = {"execute": "executor", "replan": "replanner", "finish": "summarizer", "summarize": "summarizer"}


class PlanState(TypedDict):
    """The position in the graph of a plan; the progress of the plan itself is in the store.

    Attributes:
        n: The number of the job for which a node is entered.
    """

    session_id: str
    thread_id: str
    user_message_id: str
    tool_call_id: str
    caller_job_id: str
    goes_to: str
    n: int


class PlanNodes:
    """The nodes of a plan's graph.

    A node that is entered again after a crash may have finished its job already. Each node therefore first computes the
    next job from the store. If the next job is a different job, even of the same node, the node returns to the graph;
    otherwise LangGraph would continue the stored loop of the earlier job.
    """

    def __init__(self, loop: LoopGraph) -> None:
        self._loop = loop

    def graph(self) -> Any:
        """Build and compile the graph."""
        graph = StateGraph(PlanState, context_schema=RunContext)
        graph.add_node("executor", self.executor)
        graph.add_node("replanner", self.replanner)
        graph.add_node("summarizer", self.summarizer)
        nodes = ["executor", "replanner", "summarizer"]
        graph.add_conditional_edges(START, _goes_to, nodes)
        graph.add_conditional_edges("executor", _goes_to, nodes)
        graph.add_conditional_edges("replanner", _goes_to, nodes)
        graph.add_edge("summarizer", END)
        return graph.compile()

    async def next_node(self, ledger: PlanLedger) -> dict[str, Any]:
        """Return the next node with its job, as computed from the stored progress of the plan."""
        return _next_move(await ledger.progress(), plan_rules(ledger.ctx.services.graph_config))

    async def executor(self, state: PlanState, runtime: Runtime[RunContext]) -> dict[str, Any]:
        """Execute a step; the answer of the agent is the result, unless the agent reported a failure."""
        ctx, ledger = runtime.context, _ledger(state, runtime)
        rules, progress = plan_rules(ctx.services.graph_config), await ledger.progress()
        if _is_other(move := _next_move(progress, rules), state):
            return move
        job = progress.open_job
        step = progress.plan.step(job.step_id if job else progress.next_action(rules).step_id)
        if job is None:
            task = step_task(ctx.run.question, progress, step)
            job = await ledger.start_job(progress, "execute", EXECUTOR.name, task, step=step)
        end = await self._run(ctx, state, job, EXECUTOR.name, step)
        outcome, text = await self._outcome(ctx, job, end)
        seen = (await ledger.progress()).plan  # a person may have changed the plan meanwhile
        await ledger.end_step(seen, finish_job(job, outcome, text), EXECUTOR.name)
        return await self.next_node(ledger)

    async def _outcome(self, ctx: RunContext, job: PlanJob, end: JobOutcome) -> tuple[str, str]:
        if (reported := await last_call(ctx, job.job_id, REPORT_FAILURE_TOOL)) is not None:
            return "failed", str(reported.get("reason", "")) or end.text
        if end.error is not None:
            return "failed", describe_error(end.error)
        if end.hit_round_limit:
            return "failed", f"The rounds of tools were used up before it was done. So far: {end.text}"
        return "completed", end.text

    async def replanner(self, state: PlanState, runtime: Runtime[RunContext]) -> dict[str, Any]:
        """Let an agent decide how the plan continues."""
        ctx, ledger = runtime.context, _ledger(state, runtime)
        rules, progress = plan_rules(ctx.services.graph_config), await ledger.progress()
        if _is_other(move := _next_move(progress, rules), state):
            return move
        job = progress.open_job
        if job is None:
            task = replanner_task(ctx.run.question, progress, rules)
            job = await ledger.start_job(progress, "replan", REPLANNER.name, task, step=progress.last_step)
        end = await self._run(ctx, state, job, REPLANNER.name)
        decision = await last_call(ctx, job.job_id, PLAN_DECIDE_TOOL)
        await self._act(ledger, (await ledger.progress()).plan, job, decision, end)
        return await self.next_node(ledger)

    async def _act(
        self, ledger: PlanLedger, seen: Plan, job: PlanJob, params: Mapping[str, Any] | None, end: JobOutcome
    ) -> None:
        """Apply the decision of the replanner; without a decision, the plan ends."""
        if params is None:
            problem = describe_error(end.error) if end.error is not None else "it gave no decision that can be acted on"
            await ledger.end_job(
                seen, finish_job(job, "finish", f"The replanner did not decide: {problem}."), REPLANNER.name
            )
            return
        # The tool validates the decision, because the text protocol writes an empty list as an empty text.
        decision = PlanDecision.model_validate(plan_decide.bind(params).model_dump())
        edit, events = _edit_of(decision, job)
        await ledger.end_job(seen, finish_job(job, decision.decision, decision.reason), REPLANNER.name, edit, events)

    async def summarizer(self, state: PlanState, runtime: Runtime[RunContext]) -> dict[str, Any]:
        """Skip the remaining steps, and let an agent summarize the plan."""
        ctx, ledger = runtime.context, _ledger(state, runtime)
        rules, progress = plan_rules(ctx.services.graph_config), await ledger.progress()
        reason = progress.end_reason(rules)
        await ledger.skip_remaining(progress.plan, reason or _TOO_LATE, SUMMARIZER.name)
        progress = await ledger.progress()
        if not progress.needs_summary(rules):
            return {}
        job = progress.open_job
        if job is None:
            task = summary_task(ctx.run.question, progress.plan, reason)
            job = await ledger.start_job(progress, "summarize", SUMMARIZER.name, task)
        end = await self._run(ctx, state, job, SUMMARIZER.name)
        outcome, text = ("completed", end.text) if end.error is None else ("failed", describe_error(end.error))
        seen = (await ledger.progress()).plan
        await ledger.end_job(seen, finish_job(job, outcome, text), SUMMARIZER.name)
        await ledger.skip_remaining(seen, _TOO_LATE, SUMMARIZER.name)
        return {}

    async def _run(
        self, ctx: RunContext, state: PlanState, job: PlanJob, agent: str, step: PlanStep | None = None
    ) -> JobOutcome:
        tools = (*step.tools, REPORT_FAILURE_TOOL) if step is not None and step.tools else ()
        return await run_job(ctx, self._loop, start_of_job(state, job.job_id, agent, job.instruction, tools))


async def _goes_to(state: PlanState) -> str:  # a coroutine, or LangGraph would call it on another thread
    return state["goes_to"]


def _next_move(progress: PlanProgress, rules: PlanRules) -> dict[str, Any]:
    """Return the next node, and the number of the job for which the node is entered."""
    if (job := progress.open_job) is not None:
        return {"goes_to": _NODES[job.kind], "n": job.n}
    return {"goes_to": _NODES[progress.next_action(rules).kind], "n": len(progress.jobs) + 1}


def _is_other(move: Mapping[str, Any], state: PlanState) -> bool:
    """Return whether the next job differs from the job for which a node was entered."""
    return (move["goes_to"], move["n"]) != (state["goes_to"], state["n"])


def _edit_of(decision: PlanDecision, job: PlanJob) -> tuple[PlanEdit | None, list[EventSpec]]:
    """Return the edit of the plan that follows from a decision, with its events."""
    if decision.decision == "revise":
        steps = [draft.step() for draft in decision.steps]

        def payload(changed: PlanTransition) -> Mapping[str, Any]:
            return {"reason": decision.reason, "steps": step_payloads(changed.plan.steps)}

        return lambda plan: plan.revise(steps), [(StreamEventType.PLAN_REVISED, payload)]
    if decision.decision == "retry":
        return lambda plan: plan.with_step(job.step_id, "pending"), [plan_updated_event(decision.reason)]
    return None, []


def _ledger(state: PlanState, runtime: Runtime[RunContext]) -> PlanLedger:
    return PlanLedger(runtime.context, state["tool_call_id"], state["caller_job_id"])


def plan_policy(services: Services, policy: ApprovalPolicy) -> PlanPolicy:
    """Return the rules and tools of plans, with the tools that need an approval for each call under this policy."""
    executor = services.agents[EXECUTOR.name]
    tools = {tool.name: tool for tool in executor.tools if tool.name != REPORT_FAILURE_TOOL}
    confirmed = {name: tool.permission is ToolPermission.CONFIRM for name, tool in tools.items()}
    asking = {name for name, is_confirmed in confirmed.items() if policy.applies_to(name, is_confirmed)}
    return PlanPolicy(plan_rules(services.graph_config), tools, asking)


def plan_delegate(loop: LoopGraph) -> Delegate:
    """Create the function that executes plans, with the loop of the agents that carry out plans."""
    nodes = PlanNodes(loop)
    graph = nodes.graph()

    async def delegate(ctx: RunContext, state: AgentState, key: str, args: PlanDraft) -> ToolResult:
        ledger = PlanLedger(ctx, key, state["job_id"])
        if await ledger.find_progress() is None:
            if problem := plan_policy(ctx.services, ctx.policy).plan_refusal(
                args, await ctx.services.plans.n_plans(ctx.run.run_id)
            ):
                raise ToolError(problem)
            steps = assign_step_ids([draft.step() for draft in args.steps])
            await ledger.create(Plan(plan_id(key), args.title, steps), state["current_agent"])
        where = {name: state[name] for name in ("session_id", "thread_id", "user_message_id")}
        start = {**where, "tool_call_id": key, "caller_job_id": state["job_id"], **await nodes.next_node(ledger)}
        await graph.ainvoke(start, context=ctx)
        return plan_result(await ledger.progress(), plan_rules(ctx.services.graph_config))

    return delegate


@cache
def plan_loop() -> LoopGraph:
    """Return the loop of the planning agent; the loop has no state and is compiled once per process."""
    loop = job_loop()
    return build_loop({call_subagent.name: subagent_delegate(loop), PLAN_CREATE_TOOL: plan_delegate(loop)}).compile()


async def _prompt_context(ctx: RunContext, agent: str, job_id: str) -> PromptContext:
    """Return the default context with the plan that the job belongs to or has created."""
    context = await ContextManager.default_context(ctx, agent, job_id)
    key = await ctx.services.plans.tool_call_of_job(job_id)
    if key is None:
        calls = [call for turn in await ctx.transcript(job_id).read() for call in turn.calls]
        key = next((call.tool_call_id for call in reversed(calls) if call.call.name == PLAN_CREATE_TOOL), None)
    progress = key and await ctx.services.plans.progress(ctx.run.conversation_id, ctx.run.message_id, key)
    if not progress:
        return context
    return replace(context, plan=progress, choices=progress.choices(plan_rules(ctx.services.graph_config)))


def _tool_services(services: Services, policy: ApprovalPolicy, _run: StoredRun) -> Mapping[type, Any]:
    return {PlanPolicy: plan_policy(services, policy), ReservedArtifacts: RESERVED_PLAN}


def _describe_tool(entry: Tool, tools_of: Callable[[str], Sequence[Tool]]) -> Tool:
    """Add the tools of steps to the description of a tool that writes steps; return other tools unchanged."""
    if entry.name not in {PLAN_CREATE_TOOL, PLAN_DECIDE_TOOL}:
        return entry
    return with_step_tools(entry, tuple(tool.name for tool in tools_of(EXECUTOR.name)))


PLAN_FLOW = FlowSpec(
    PLAN,
    plan_loop,
    PLAN_AGENTS,
    config=PLAN_CONFIG,
    prompt_context=_prompt_context,
    tool_services=_tool_services,
    describe_tool=_describe_tool,
    check_edit=refusal_reason,
    abort=abort_plans,
    depths={
        "quick": {"executor": {"max_steps": 3, "max_tool_rounds": 10}},
        "deep": {"executor": {"max_steps": 16}, "replanner": {"skip_on_success": False, "max_revisions": 6}},
    },
    cites_sources=True,
)
