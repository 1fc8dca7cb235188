"""The calls by which agents make plans, decide on them and own up to a failure. The flow itself acts on them.

Each is a typed value: what an agent decides stands in the parameters of its call, never in the words of its answer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, model_validator

from artifactflow_nb.errors import ToolError
from artifactflow_nb.plans import PLAN_CREATE, Choice, PlanRules, PlanStep, Progress
from artifactflow_nb.store.plans import PlanStore
from artifactflow_nb.text.markdown import portable_line
from artifactflow_nb.tools.base import Tool, ToolContext, ToolPermission, tool

MOST_STEPS = 50

CATEGORY = "plan"

PLAN_DECIDE = "plan_decide"


class StepDraft(BaseModel):
    """A step as an agent or a person writes it; a bare text is its title."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

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
        """The step, not begun yet."""
        return PlanStep(self.id, self.title, self.description, tools=tuple(self.tools))


class PlanDraft(BaseModel):
    """The parameters of `plan_create`."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    title: Annotated[str, Field(description="What the plan is for, in a line.", min_length=1)]
    steps: Annotated[list[StepDraft], Field(description="The steps, in order.", min_length=1, max_length=MOST_STEPS)]


class PlanDecision(BaseModel):
    """The parameters of `plan_decide`."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    decision: Annotated[
        Choice,
        Field(
            description="continue with the next step, retry the step that failed, revise the steps that are to come, "
            "or finish the plan as it is."
        ),
    ]
    reason: Annotated[str, Field(description="Why, in a sentence.", min_length=1)]
    steps: Annotated[
        list[StepDraft],
        Field(description="With revise: all steps that are to come, in order.", max_length=MOST_STEPS),
    ] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlanDuty:
    """How a run carries out plans; a service of the plan's tools.

    Attributes:
        rules: The rules.
        tools: The tools that steps are carried out with, by name.
    """

    rules: PlanRules
    tools: Mapping[str, Tool]

    def needs_a_person(self, drafts: Iterable[StepDraft]) -> bool:
        """Whether a person is asked about these steps."""
        if self.rules.approval != "confirm":
            return self.rules.approval
        used = [name for draft in drafts for name in draft.tools or self.tools]
        return any(self.tools[name].permission is not ToolPermission.AUTO for name in used if name in self.tools)

    def refused_plan(self, draft: PlanDraft, n_plans: int) -> str:
        """Why a plan is not carried out in a turn that has had so many plans; empty if it is."""
        if n_plans >= self.rules.max_plans:
            had = f"{n_plans} plans, the most that it may have"
            return f"Not carried out: this turn has had {had}. Answer with what is known, and say what was not done."
        return self._unknown_tools(draft.steps)

    def refused_decision(self, args: PlanDecision, progress: Progress) -> str:
        """Why a decision on a plan cannot be acted on; empty if it can."""
        choices = progress.choices(self.rules)
        if args.decision not in choices:
            return f"{args.decision} is not possible now; choose one of: {', '.join(choices)}."
        if args.decision == "revise" and not args.steps:
            return "A revision needs the steps that are to come. To end the plan, choose finish."
        return self._unknown_tools(args.steps)

    def _unknown_tools(self, drafts: Iterable[StepDraft]) -> str:
        unknown = [name for draft in drafts for name in draft.tools if name not in self.tools]
        return f"There is no tool {unknown[0]!r} for steps; there are: {', '.join(self.tools)}." if unknown else ""


async def _for_a_plan(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """A plan that would be refused is put before nobody."""
    duty = ctx.service(PlanDuty)
    if not isinstance(args, PlanDraft) or not duty.needs_a_person(args.steps):
        return ToolPermission.AUTO
    is_refused = duty.refused_plan(args, await ctx.service(PlanStore).n_plans(ctx.run_id))
    return ToolPermission.AUTO if is_refused else ToolPermission.CONFIRM


async def _for_a_decision(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """A revision is asked about as the plan was."""
    if not isinstance(args, PlanDecision) or args.decision != "revise":
        return ToolPermission.AUTO
    if not ctx.service(PlanDuty).needs_a_person(args.steps):
        return ToolPermission.AUTO
    return ToolPermission.AUTO if await _refusal(ctx, args) else ToolPermission.CONFIRM


async def _refusal(ctx: ToolContext, args: PlanDecision) -> str:
    """Why a decision cannot be acted on; empty if it can."""
    progress = await ctx.service(PlanStore).progress_of(ctx.conversation_id, ctx.message_id, ctx.tool_call_id)
    return "There is no plan." if progress is None else ctx.service(PlanDuty).refused_decision(args, progress)


async def _decide(ctx: ToolContext, **values: Any) -> str:
    """Tell the agent whether its decision can be acted on."""
    args = PlanDecision.model_validate(values)
    if problem := await _refusal(ctx, args):
        raise ToolError(problem)
    return f"Noted: {args.decision}. Say so in a sentence; nothing else is needed."


async def _preview(ctx: ToolContext, args: BaseModel) -> str:
    """The steps as a person sees them before deciding."""
    del ctx
    drafts = args.steps if isinstance(args, PlanDraft | PlanDecision) else []
    return "\n".join(f"{number}. {_told(draft)}" for number, draft in enumerate(drafts, 1))


def _told(draft: StepDraft) -> str:
    """A step in a line, with the tools that it is restricted to."""
    description = f": {portable_line(draft.description)}" if draft.description else ""
    tools = f" (with {portable_line(', '.join(draft.tools))})" if draft.tools else ""
    return f"**{portable_line(draft.title)}**{description}{tools}"


plan_create = Tool(
    PLAN_CREATE,
    "Make a plan for a task that takes several steps; its steps are carried out one after the other, and the result "
    "says what was done. Use it when the task has parts that rest on each other. It must be the only call of your "
    "reply.",
    PlanDraft,
    None,
    _for_a_plan,
    CATEGORY,
    idempotent=True,
    preview=_preview,
    asks_as="plan",
    stands_alone=True,
)

plan_decide = Tool(
    PLAN_DECIDE,
    "Say how the plan goes on. Call it once.",
    PlanDecision,
    _decide,
    _for_a_decision,
    CATEGORY,
    idempotent=True,
    preview=_preview,
    asks_as="plan",
    stands_alone=True,
)


@tool(category=CATEGORY, idempotent=True)
async def report_failure(ctx: ToolContext, reason: Annotated[str, "What went wrong and what was tried."]) -> str:
    """Say that the step cannot be done. Call it instead of writing a result that is none; then answer in a sentence."""
    del ctx, reason
    return "Noted. Answer in a sentence."


REPORT_FAILURE = report_failure.name

PLAN_TOOLS = (plan_create, plan_decide, report_failure)
