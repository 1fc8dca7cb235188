"""The plan flow: one agent's loop, in which a call of `plan_create` is carried out by a graph of its own.

::

    START -> agent --respond--> END
               |  plan_create
               v
              gate --rejected--> agent, which is told why
               |  approved, edited, or nobody has to be asked
               v
           executor <---- continue, retry, revise ---- replanner
               |  ^ status decides                        ^ |
               +--+----------------- else ----------------+ | finish
               +--- all done, or a limit ---> summarizer <--+
                                                   |
                                                   v
                                       agent (the plan's report is the result of its call)

Each step, each look of the replanner and the summary are jobs with a loop of their own; only the report goes back into
the transcript of the agent.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel

from artifactflow_nb.agents.planning import EXECUTOR, REPLANNER, SUMMARIZER
from artifactflow_nb.errors import ToolError, told
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.flows.loop import (
    Delegate,
    JobEnd,
    LoopGraph,
    build_loop,
    job_loop,
    last_call,
    run_job,
    to_subagents,
)
from artifactflow_nb.flows.plan_desk import PlanDesk, Told, described, ended, updated
from artifactflow_nb.flows.plan_texts import report, task_of_replanner, task_of_step, task_of_summary
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.state import AgentState, start_of_job
from artifactflow_nb.flows.with_saver import with_saver
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.plans import PLAN_CREATE, Plan, PlanJob, PlanRules, PlanStep, Progress, numbered, plan_id
from artifactflow_nb.store.plans import Changed, PlanEdit
from artifactflow_nb.tools.delegate import call_subagent
from artifactflow_nb.tools.plan import PLAN_DECIDE, REPORT_FAILURE, PlanDecision, PlanDraft, plan_decide

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

_TOO_LATE = "The plan was over by then."
"""Why a step is skipped that a person adds when all others are done."""

_NODES = {"execute": "executor", "replan": "replanner", "finish": "summarizer", "summarize": "summarizer"}


class PlanState(TypedDict):
    """How far a plan's graph is; how far the plan is stands in the store.

    Attributes:
        tool_call_id: The call that made the plan.
        caller_job_id: The job of the loop that made the call.
        goes_to: The next node.
        n: The number of the job that it is entered for.
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

    A node that is entered again after a crash may have done already what it was entered for: so each looks what comes
    next as the store has the plan. Another job is left to the graph, also if it is for the same node: LangGraph goes on
    with the loop that it keeps for this entry, which is that of the job before.

    Args:
        loop: The loop of the agents that work on it.
    """

    def __init__(self, loop: LoopGraph) -> None:
        self._loop = loop

    def graph(self) -> Any:
        """The graph, compiled."""
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

    async def next_move(self, desk: PlanDesk) -> dict[str, Any]:
        """Where the graph goes, as the store has the plan."""
        return _next_move(await desk.progress(), desk.ctx.plan_duty.rules)

    async def executor(self, state: PlanState, runtime: Runtime[RunContext]) -> dict[str, Any]:
        """Carry out a step; its agent's answer is the result, unless it said that it failed."""
        ctx, desk = runtime.context, _desk(state, runtime)
        progress = await desk.progress()
        if _is_other(move := _next_move(progress, ctx.plan_duty.rules), state):
            return move
        job = progress.open_job
        step = progress.plan.step(job.step_id if job else progress.next_move(ctx.plan_duty.rules).step_id)
        if job is None:
            task = task_of_step(ctx.run.question, progress, step)
            job = await desk.start(progress, "execute", EXECUTOR.name, task, step=step)
        end = await self._run(ctx, state, job, EXECUTOR.name, step)
        outcome, text = await self._outcome(ctx, job, end)
        seen = (await desk.progress()).plan  # a person may have changed it meanwhile
        await desk.end_step(seen, ended(job, outcome, text), EXECUTOR.name)
        return await self.next_move(desk)

    async def _outcome(self, ctx: RunContext, job: PlanJob, end: JobEnd) -> tuple[str, str]:
        if (reported := await last_call(ctx, job.job_id, REPORT_FAILURE)) is not None:
            return "failed", str(reported.get("reason", "")) or end.text
        if end.error is not None:
            return "failed", told(end.error)
        if end.is_used_up:
            return "failed", f"The rounds of tools were used up before it was done. So far: {end.text}"
        return "completed", end.text

    async def replanner(self, state: PlanState, runtime: Runtime[RunContext]) -> dict[str, Any]:
        """Let an agent decide how the plan goes on."""
        ctx, desk = runtime.context, _desk(state, runtime)
        progress = await desk.progress()
        if _is_other(move := _next_move(progress, ctx.plan_duty.rules), state):
            return move
        job = progress.open_job
        if job is None:
            task = task_of_replanner(ctx.run.question, progress, ctx.plan_duty.rules)
            job = await desk.start(progress, "replan", REPLANNER.name, task, step=progress.last_step)
        end = await self._run(ctx, state, job, REPLANNER.name)
        decision = await last_call(ctx, job.job_id, PLAN_DECIDE)
        await self._act(desk, (await desk.progress()).plan, job, decision, end)
        return await self.next_move(desk)

    async def _act(
        self, desk: PlanDesk, seen: Plan, job: PlanJob, found: Mapping[str, Any] | None, end: JobEnd
    ) -> None:
        """Do what the replanner decided; if it decided nothing, the plan ends."""
        if found is None:
            why = told(end.error) if end.error is not None else "it gave no decision that can be acted on"
            await desk.end(seen, ended(job, "finish", f"The replanner did not decide: {why}."), REPLANNER.name)
            return
        # As the tool read them: the text protocol writes an empty list as an empty text.
        decision = PlanDecision.model_validate(plan_decide.bind(found).model_dump())
        edit, told_of = _acted_on(decision, job)
        await desk.end(seen, ended(job, decision.decision, decision.reason), REPLANNER.name, edit, told_of)

    async def summarizer(self, state: PlanState, runtime: Runtime[RunContext]) -> dict[str, Any]:
        """Note what will not be done, and have an agent say what came of the plan."""
        ctx, desk = runtime.context, _desk(state, runtime)
        rules, progress = ctx.plan_duty.rules, await desk.progress()
        why = progress.why_over(rules)
        await desk.close(progress.plan, why or _TOO_LATE, SUMMARIZER.name)
        progress = await desk.progress()
        if not progress.is_to_be_summed_up(rules):
            return {}
        job = progress.open_job
        if job is None:
            task = task_of_summary(ctx.run.question, progress.plan, why)
            job = await desk.start(progress, "summarize", SUMMARIZER.name, task)
        end = await self._run(ctx, state, job, SUMMARIZER.name)
        outcome, text = ("completed", end.text) if end.error is None else ("failed", told(end.error))
        seen = (await desk.progress()).plan
        await desk.end(seen, ended(job, outcome, text), SUMMARIZER.name)
        await desk.close(seen, _TOO_LATE, SUMMARIZER.name)
        return {}

    async def _run(
        self, ctx: RunContext, state: PlanState, job: PlanJob, agent: str, step: PlanStep | None = None
    ) -> JobEnd:
        tools = (*step.tools, REPORT_FAILURE) if step is not None and step.tools else ()
        return await run_job(ctx, self._loop, start_of_job(state, job.job_id, agent, job.instruction, tools))


async def _goes_to(state: PlanState) -> str:  # a coroutine, or LangGraph would call it on another thread
    return state["goes_to"]


def _next_move(progress: Progress, rules: PlanRules) -> dict[str, Any]:
    """Where the graph goes from here, and for which job."""
    if (job := progress.open_job) is not None:
        return {"goes_to": _NODES[job.kind], "n": job.n}
    return {"goes_to": _NODES[progress.next_move(rules).kind], "n": len(progress.jobs) + 1}


def _is_other(move: Mapping[str, Any], state: PlanState) -> bool:
    """Whether something else comes next than what a node was entered for."""
    return (move["goes_to"], move["n"]) != (state["goes_to"], state["n"])


def _acted_on(decision: PlanDecision, job: PlanJob) -> tuple[PlanEdit | None, list[Told]]:
    """What a decision makes of the plan, and the events that tell it."""
    if decision.decision == "revise":
        steps = [draft.step() for draft in decision.steps]
        revised = StreamEventType.PLAN_REVISED, lambda changed: _with_all_steps(decision.reason, changed)
        return lambda plan: plan.revised(steps), [revised]
    if decision.decision == "retry":
        return lambda plan: plan.with_step(job.step_id, "pending"), [updated(decision.reason)]
    return None, []


def _with_all_steps(reason: str, changed: Changed) -> Mapping[str, Any]:
    return {"reason": reason, "steps": described(changed.plan.steps)}


def _desk(state: PlanState, runtime: Runtime[RunContext]) -> PlanDesk:
    return PlanDesk(runtime.context, state["tool_call_id"], state["caller_job_id"])


def to_plan(loop: LoopGraph) -> Delegate:
    """Carries out plans, with the loop of the agents that work on them."""
    nodes = PlanNodes(loop)
    graph = nodes.graph()

    async def delegate(ctx: RunContext, state: AgentState, key: str, args: BaseModel) -> ToolResult:
        if not isinstance(args, PlanDraft):
            raise ToolError("This call makes no plan.")
        desk = PlanDesk(ctx, key, state["job_id"])
        if await desk.found() is None:
            if problem := ctx.plan_duty.refused_plan(args, await ctx.services.plans.n_plans(ctx.run.run_id)):
                raise ToolError(problem)
            steps = numbered([draft.step() for draft in args.steps])
            await desk.create(Plan(plan_id(key), args.title, steps), state["current_agent"])
        where = {name: state[name] for name in ("session_id", "thread_id", "user_message_id")}
        start = {**where, "tool_call_id": key, "caller_job_id": state["job_id"], **await nodes.next_move(desk)}
        await graph.ainvoke(start, context=ctx)
        return report(await desk.progress(), ctx.plan_duty.rules)

    return delegate


@cache
def _plan_loop() -> LoopGraph:
    """The loop of the agent that plans, compiled: it keeps nothing, so one does for all engines."""
    loop = job_loop()
    return build_loop({call_subagent.name: to_subagents(loop), PLAN_CREATE: to_plan(loop)}).compile()


def compile_plan(checkpointer: "BaseCheckpointSaver[str]") -> LoopGraph:
    """The flow, ready to run, with these checkpoints."""
    return with_saver(_plan_loop(), checkpointer)
