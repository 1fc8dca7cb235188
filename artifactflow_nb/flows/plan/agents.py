"""The agents of the plan flow: their configuration, their instructions, and the result of `plan_create`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from artifactflow_nb.agents.base import AgentConfig
from artifactflow_nb.agents.lead import LeadAgent
from artifactflow_nb.agents.settings import (
    ConfigNode,
    Enabled,
    ModelNode,
    NonNegativeInteger,
    PositiveInteger,
    ToolNames,
)
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.plan import REPLANNING_AGENT, Plan, PlanProgress, PlanRules, PlanStep
from artifactflow_nb.core.text.format import count
from artifactflow_nb.flows.base import FlowAgent
from artifactflow_nb.flows.compression import cut_text
from artifactflow_nb.flows.plan.tools import plan_create, plan_decide, report_failure


class PlannerNode(ConfigNode):
    """The node `planner`: whether the agent can make plans."""

    enabled: Enabled = True


class ApprovalNode(ConfigNode):
    """The node `approval`: which plans need an approval. `confirm` means plans with a tool that needs approvals."""

    enabled: Annotated[bool | Literal["confirm"], Field(description="true, false or 'confirm'")] = False


class ExecutorNode(ModelNode):
    """The agent that carries out a step; `max_steps` counts each attempt at a step of a plan."""

    max_tool_rounds: PositiveInteger = 30
    max_steps: PositiveInteger = 8
    tools: ToolNames = ("core", "mcp")


class ReplannerNode(ModelNode):
    """The agent that decides after a step how the plan continues.

    Attributes:
        enabled: Whether the replanner is called; if not, a plan continues until a step fails.
        skip_on_success: Whether the replanner is called only after a step that did not succeed.
    """

    enabled: Enabled = True
    skip_on_success: Enabled = True
    max_revisions: NonNegativeInteger = 3
    max_retries: NonNegativeInteger = 2
    max_plans: PositiveInteger = 3


class SummarizerNode(ModelNode):
    """The agent that summarizes a finished plan; without this agent, the answer is written from the plan."""

    enabled: Enabled = True


class GraphSettings(ConfigNode):
    """Limits of the whole graph.

    Attributes:
        recursion_limit: The most jobs for the plans of a turn: attempts at steps, replanning and summaries.
    """

    recursion_limit: PositiveInteger = 100


PLAN_CONFIG = {
    "planner": PlannerNode(),
    "approval": ApprovalNode(),
    "executor": ExecutorNode(),
    "replanner": ReplannerNode(),
    "summarizer": SummarizerNode(),
    "settings": GraphSettings(),
}

AGENT = AgentConfig(
    name="agent",
    description="Answers, and makes a plan for what takes several steps.",
    required_tools=("all",),
    temperature=None,
    max_tool_rounds=50,
)

EXECUTOR = AgentConfig(name="executor", description="Carries out one step of a plan.")

REPLANNER = AgentConfig(
    name=REPLANNING_AGENT, description="Looks at a plan after a step and decides how it goes on.", max_tool_rounds=3
)

SUMMARIZER = AgentConfig(
    name="summarizer", description="Says what a plan has done and what it has not.", max_tool_rounds=0
)

_WITH_PLANS = FlowAgent(AGENT, LeadAgent, tools=(plan_create,))
_WITHOUT_PLANS = FlowAgent(replace(AGENT, description="Answers.", prompt="agent_without_plans"), LeadAgent)


PLAN_AGENTS = (
    replace(_WITH_PLANS, for_config=lambda config: _WITH_PLANS if config.planner.enabled else _WITHOUT_PLANS),
    FlowAgent(EXECUTOR, tools=(report_failure,)),
    FlowAgent(REPLANNER, tools=(plan_decide,)),
    FlowAgent(SUMMARIZER),
)


EARLIER_CHARS = 4_000
"""The largest length of a single result in an instruction."""

RESULTS_CHARS = 24_000
"""The largest length of all results together, so that the instruction is never compressed."""

REPORT_CHARS = 12_000
"""The largest length of all results together in the result of the call that made the plan."""

END_REASON_CHARS = 4_000
"""The largest length of all reasons of failed or skipped steps together, in the result of the same call."""

_LEFT_OUT = " of this result"


def step_task(question: str, progress: PlanProgress, step: PlanStep) -> str:
    """Write the instruction of the executor: the step, the whole plan, and the results so far."""
    plan = progress.plan
    number = plan.steps.index(step) + 1
    sections = [
        f"The task: {question}",
        f"The plan: {plan.title}\n{_listed(plan.with_step(step.id, 'running'))}",
        *_results(plan, RESULTS_CHARS),
        f"Your step, {number} of {len(plan.steps)}: {step.title}\n{step.description}".strip(),
    ]
    if failed := [job for job in progress.jobs if job.step_id == step.id and job.outcome == "failed"]:
        sections.append(f"It was tried before and failed: {cut_text(failed[-1].text, EARLIER_CHARS, _LEFT_OUT)}")
    return "\n\n".join(sections)


def replanner_task(question: str, progress: PlanProgress, rules: PlanRules) -> str:
    """Write the instruction of the replanner: the outcome of the last step, and the choices."""
    last = progress.last_step
    outcome = f"The step {last.id} ({last.title}) {_ended(last)}." if last else "No step was carried out."
    limits = [
        f"retries left for this step: {rules.max_retries + 1 - progress.n_attempts(last.id)}" if last else "",
        f"revisions left: {rules.max_revisions - progress.n_revisions}",
        f"steps that can still be carried out: {rules.max_steps - progress.n_executed}",
    ]
    return "\n\n".join(
        [
            f"The task: {question}",
            f"The plan: {progress.plan.title}\n{_listed(progress.plan)}",
            *_results(progress.plan, RESULTS_CHARS),
            outcome,
            f"You may choose: {', '.join(progress.choices(rules))} ({'; '.join(filter(None, limits))}).",
        ]
    )


def summary_task(question: str, plan: Plan, reason: str) -> str:
    """Write the instruction of the summarizer: all steps with their results, and the reason for the plan's end."""
    over = [f"Why it ended: {_in_a_line(reason)}"] if reason else []
    return "\n\n".join([f"The task: {question}", f"The plan: {plan.title}", *over, *_results(plan, RESULTS_CHARS)])


def plan_result(progress: PlanProgress, rules: PlanRules) -> ToolResult:
    """Build the result of the call that created the plan: the status of each step, with the summary or the results.

    The result is successful if all steps were completed.
    """
    plan, reason = progress.plan, progress.end_reason(rules)
    counts = ", ".join(f"{number} {status}" for status, number in plan.counts.items())
    sections = [f"The plan {plan.title!r} is over: {count(len(plan.steps), 'step')}, {counts}."]
    if reason and all(step.result != reason for step in plan.steps):
        sections.append(f"Why it ended: {_in_a_line(reason)}")
    sections.append("\n".join(_lines(plan)))
    summary = progress.summary
    if summary is not None and summary.outcome == "completed":
        sections.append(summary.text)
    else:
        sections += [] if summary is None else [f"There is no summary: {_in_a_line(summary.text)}"]
        sections += _results(plan, REPORT_CHARS)
    text = "\n\n".join(sections)
    metadata = {"plan_id": plan.plan_id, **plan.counts}
    if len(plan.steps_with_status("completed")) == len(plan.steps):
        return ToolResult(success=True, data=text, metadata=metadata)
    return ToolResult(success=False, error=text, metadata={**metadata, "error_type": "PlanIncomplete"})


def _lines(plan: Plan) -> Iterator[str]:
    """List the steps, one per line, with the reason of each failed or skipped step."""
    reasons = [step.result if step.status in {"failed", "skipped"} else "" for step in plan.steps]
    limit = _share([len(reason) for reason in reasons], END_REASON_CHARS)
    for number, (step, reason) in enumerate(zip(plan.steps, reasons, strict=True), 1):
        suffix = f": {cut_text(reason, limit, _LEFT_OUT)}" if reason else ""
        yield f"{number}. [{step.status}] {step.title}{suffix}"


def _listed(plan: Plan) -> str:
    return "\n".join(f"{number}. [{step.status}] {step.title}" for number, step in enumerate(plan.steps, 1))


def _results(plan: Plan, n_chars: int) -> Iterator[str]:
    """Format the results of the steps, with at most this number of characters in total."""
    limit = min(EARLIER_CHARS, _share([len(step.result) for step in plan.steps], n_chars))
    for number, step in enumerate(plan.steps, 1):
        if step.result:
            yield f"Step {number} ({step.title}) {_ended(step)}:\n{cut_text(step.result, limit, _LEFT_OUT)}"


def _share(lengths: Sequence[int], n_chars: int) -> int:
    """Return the length to which texts must be cut so that all together have at most this number of characters."""
    left = n_chars
    for n, length in enumerate(sorted(lengths)):
        if length * (len(lengths) - n) > left:
            return left // (len(lengths) - n)
        left -= length
    return n_chars


def _in_a_line(text: str) -> str:
    return cut_text(" ".join(text.split()), EARLIER_CHARS, _LEFT_OUT)


def _ended(step: PlanStep) -> str:
    return {"completed": "was completed", "failed": "failed", "skipped": "was skipped"}.get(step.status, step.status)
