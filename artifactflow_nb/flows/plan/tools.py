"""The tools by which agents make plans, decide on them and report failures; the flow acts on the calls.

Decisions are read from the parameters of these calls, never from the text of an answer.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, Field, model_validator

from artifactflow_nb.agents.settings import GraphConfig
from artifactflow_nb.core.plan import (
    PLAN_CREATE_TOOL,
    PLAN_DECIDE_TOOL,
    PlanProgress,
    PlanRules,
    PlanStep,
    ReplanChoice,
)
from artifactflow_nb.core.text.format import count
from artifactflow_nb.core.text.markdown import safe_markdown_line
from artifactflow_nb.errors import ToolError
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID
from artifactflow_nb.store.plans import PlanStore
from artifactflow_nb.tools.artifacts import ReservedArtifacts
from artifactflow_nb.tools.base import Tool, ToolContext, ToolParams, ToolPermission, tool

MAX_STEPS = 50

CATEGORY = "plan"


class StepDraft(ToolParams):
    """A step as written by an agent or a person; a plain text is the title of a step."""

    title: Annotated[str, Field(description="What is done, in a line.", min_length=1)]
    description: Annotated[str, Field(description="What it takes, for an agent that knows nothing else.")] = ""
    id: Annotated[str, Field(description="A short id; the step's number if left out.")] = ""
    tools: Annotated[list[str], Field(description="The tools that it needs; all if left out.")] = Field(
        default_factory=list
    )

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value.lstrip().startswith("{"):
            try:
                return orjson.loads(value)
            except ValueError:
                pass
        return {"title": value}

    def step(self) -> PlanStep:
        """Convert the draft to a pending step."""
        return PlanStep(self.id, self.title, self.description, tools=tuple(self.tools))


class PlanDraft(ToolParams):
    """The parameters of `plan_create`."""

    title: Annotated[str, Field(description="What the plan is for, in a line.", min_length=1)]
    steps: Annotated[list[StepDraft], Field(description="The steps, in order.", min_length=1, max_length=MAX_STEPS)]


class PlanDecision(ToolParams):
    """The parameters of `plan_decide`."""

    decision: Annotated[
        ReplanChoice,
        Field(
            description="continue with the next step, retry the step that failed, revise the steps that are to come, "
            "or finish the plan as it is."
        ),
    ]
    reason: Annotated[str, Field(description="Why, in a sentence.", min_length=1)]
    steps: Annotated[
        list[StepDraft], Field(description="With revise: all steps that are to come, in order.", max_length=MAX_STEPS)
    ] = Field(default_factory=list)


RESERVED_PLAN = ReservedArtifacts(
    {
        TASK_PLAN_ID: "in this run it is the plan that the workbench keeps. Steps are made and changed by the calls "
        "for plans alone; write anything else under another id."
    }
)
"""The plan artifact in a run of this flow; agents cannot write it, because its steps may have been approved."""


def plan_rules(config: GraphConfig) -> PlanRules:
    """Return the rules for plans in a configuration."""
    return PlanRules(
        max_steps=config.executor.max_steps,
        max_retries=config.replanner.max_retries,
        max_revisions=config.replanner.max_revisions,
        max_plans=config.replanner.max_plans,
        replanner=config.replanner.enabled,
        skip_on_success=config.replanner.skip_on_success,
        summarizer=config.summarizer.enabled,
        approval=config.approval.enabled,
        recursion_limit=config.settings.recursion_limit,
    )


@dataclass(frozen=True, slots=True)
class PlanPolicy:
    """The rules of plans in a run; a service of the plan's tools.

    Attributes:
        tools: The tools of steps, by name.
        confirm_tools: The names of the tools that need an approval for each call. Tools whose permission depends on the
            call are not included.
    """

    rules: PlanRules
    tools: Mapping[str, Tool]
    confirm_tools: Collection[str]

    def requires_approval(self, drafts: Iterable[StepDraft]) -> bool:
        """Return whether these steps need an approval."""
        if self.rules.approval != "confirm":
            return self.rules.approval
        return any(name in self.confirm_tools for draft in drafts for name in draft.tools or self.tools)

    def plan_refusal(self, draft: PlanDraft, n_plans: int) -> str:
        """Return the reason to reject a plan in a turn that already had `n_plans` plans, or an empty text."""
        if n_plans >= self.rules.max_plans:
            had = f"{n_plans} plans, the most that it may have"
            return f"Not carried out: this turn has had {had}. Answer with what is known, and say what was not done."
        return self._unknown_tools(draft.steps)

    def decision_refusal(self, args: PlanDecision, progress: PlanProgress) -> str:
        """Return the reason to reject a decision on a plan, or an empty text."""
        choices = progress.choices(self.rules)
        if args.decision not in choices:
            return f"{args.decision} is not possible now; choose one of: {', '.join(choices)}."
        if args.decision == "revise" and not args.steps:
            return "A revision needs the steps that are to come. To end the plan, choose finish."
        return self._unknown_tools(args.steps)

    def _unknown_tools(self, drafts: Iterable[StepDraft]) -> str:
        unknown = [name for draft in drafts for name in draft.tools if name not in self.tools]
        return f"There is no tool {unknown[0]!r} for steps; there are: {', '.join(self.tools)}." if unknown else ""


async def _permission(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """Return the configured permission of a plan or revision; a call that will be rejected needs no approval."""
    is_draft = isinstance(args, PlanDraft) or (isinstance(args, PlanDecision) and args.decision == "revise")
    if not is_draft or not ctx.service(PlanPolicy).requires_approval(_drafts(args)):
        return ToolPermission.AUTO
    return ToolPermission.AUTO if await refusal_reason(ctx, args) else ToolPermission.CONFIRM


async def refusal_reason(ctx: ToolContext, args: BaseModel) -> str:
    """Return the reason to reject a call of a plan tool, or an empty text."""
    policy, plans = ctx.service(PlanPolicy), ctx.service(PlanStore)
    if isinstance(args, PlanDraft):
        return policy.plan_refusal(args, await plans.n_plans(ctx.run_id))
    if not isinstance(args, PlanDecision):
        return ""
    progress = await plans.progress_for_job_call(ctx.conversation_id, ctx.message_id, ctx.tool_call_id)
    return "There is no plan." if progress is None else policy.decision_refusal(args, progress)


def _drafts(args: BaseModel) -> list[StepDraft]:
    return args.steps if isinstance(args, PlanDraft | PlanDecision) else []


async def _decide(ctx: ToolContext, **values: Any) -> str:
    """Accept a decision that can be applied; `ToolError` for any other decision."""
    args = PlanDecision.model_validate(values)
    if problem := await refusal_reason(ctx, args):
        raise ToolError(problem)
    return f"Noted: {args.decision}. Say so in a sentence; nothing else is needed."


async def _preview(ctx: ToolContext, args: BaseModel) -> str:
    """Format the steps for the approval request; add a note if the limits do not allow to execute all steps."""
    drafts = _drafts(args)
    lines = []
    for number, draft in enumerate(drafts, 1):
        description = f": {safe_markdown_line(draft.description)}" if draft.description else ""
        tools = f" (with {safe_markdown_line(', '.join(draft.tools))})" if draft.tools else ""
        lines.append(f"{number}. **{safe_markdown_line(draft.title)}**{description}{tools}")
    step_list = "\n".join(lines)
    left = ctx.service(PlanPolicy).rules.max_steps
    progress = await ctx.service(PlanStore).progress_for_job_call(ctx.conversation_id, ctx.message_id, ctx.tool_call_id)
    if progress is not None:  # a revision: the executed steps count
        left -= progress.n_executed
    if len(drafts) <= left:
        return step_list
    return f"{step_list}\n\nOf these {count(len(drafts), 'step')} at most {left} can be carried out."


plan_create = Tool(
    PLAN_CREATE_TOOL,
    "Make a plan for a task that takes several steps; its steps are carried out one after the other, and the result "
    "says what was done. Use it when the task has parts that rest on each other. It must be the only call of your "
    "reply.",
    PlanDraft,
    None,
    _permission,
    CATEGORY,
    idempotent=True,
    preview=_preview,
    request_kind="plan",
    request_action="carry out a plan",
    is_exclusive=True,
)

plan_decide = Tool(
    PLAN_DECIDE_TOOL,
    "Say how the plan goes on. Call it once.",
    PlanDecision,
    _decide,
    _permission,
    CATEGORY,
    idempotent=True,
    preview=_preview,
    request_kind="plan",
    request_action="carry out a plan",
    is_exclusive=True,
)


@tool(name="report_failure", category=CATEGORY, idempotent=True)
async def _report_failure(ctx: ToolContext, reason: Annotated[str, "What went wrong and what was tried."]) -> str:
    """Say that the step cannot be done. Call it instead of writing a result that is none; then answer in a sentence."""
    del ctx, reason
    return "Noted. Answer in a sentence."


report_failure = replace(_report_failure, is_allowed_after_limit=True)

REPORT_FAILURE_TOOL = report_failure.name


@lru_cache(maxsize=64)
def with_step_tools(entry: Tool, step_tools: tuple[str, ...]) -> Tool:
    """Add the tools of steps to the description of a tool that writes steps.

    The result is cached, so that schema and manual of the tool are built once for all engines with the same tools.
    """
    names = tuple(name for name in step_tools if name != REPORT_FAILURE_TOOL)
    description = f"{entry.description} Steps can use: {', '.join(names) or 'no tools'}."
    return replace(entry, description=description, suggestions={"tools": names})
