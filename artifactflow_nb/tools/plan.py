"""The calls by which agents make plans, decide on them and own up to a failure. The flow itself acts on them.

Each is a typed value: what an agent decides stands in the parameters of its call, never in the words of its answer.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, model_validator

from artifactflow_nb.errors import ToolError
from artifactflow_nb.plans import PLAN_CREATE, Choice, PlanRules, PlanStep, Progress
from artifactflow_nb.store.plans import PlanStore
from artifactflow_nb.text.figures import count
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
        asking: The names of those whose every call is put before somebody. One whose permission depends on the call
            asks by itself when it comes to that.
    """

    rules: PlanRules
    tools: Mapping[str, Tool]
    asking: Collection[str]

    def needs_a_person(self, drafts: Iterable[StepDraft]) -> bool:
        """Whether a person is asked about these steps."""
        if self.rules.approval != "confirm":
            return self.rules.approval
        return any(name in self.asking for draft in drafts for name in draft.tools or self.tools)

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


async def _permission(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """A plan is put before a person as configured, a revision as its plan was; what would be refused, before nobody."""
    is_asked = isinstance(args, PlanDraft) or (isinstance(args, PlanDecision) and args.decision == "revise")
    if not is_asked or not ctx.service(PlanDuty).needs_a_person(_drafts(args)):
        return ToolPermission.AUTO
    return ToolPermission.AUTO if await refusal(ctx, args) else ToolPermission.CONFIRM


async def refusal(ctx: ToolContext, args: BaseModel) -> str:
    """Why a plan is not carried out, or a decision on one not acted on; empty if it is."""
    duty, plans = ctx.service(PlanDuty), ctx.service(PlanStore)
    if isinstance(args, PlanDraft):
        return duty.refused_plan(args, await plans.n_plans(ctx.run_id))
    if not isinstance(args, PlanDecision):
        return ""
    progress = await plans.progress_of(ctx.conversation_id, ctx.message_id, ctx.tool_call_id)
    return "There is no plan." if progress is None else duty.refused_decision(args, progress)


def _drafts(args: BaseModel) -> list[StepDraft]:
    return args.steps if isinstance(args, PlanDraft | PlanDecision) else []


async def _decide(ctx: ToolContext, **values: Any) -> str:
    """Tell the agent whether its decision can be acted on."""
    args = PlanDecision.model_validate(values)
    if problem := await refusal(ctx, args):
        raise ToolError(problem)
    return f"Noted: {args.decision}. Say so in a sentence; nothing else is needed."


async def _preview(ctx: ToolContext, args: BaseModel) -> str:
    """The steps as a person sees them before deciding, and how many of them can be carried out if not all."""
    drafts = _drafts(args)
    listed = "\n".join(f"{number}. {_told(draft)}" for number, draft in enumerate(drafts, 1))
    left = ctx.service(PlanDuty).rules.max_steps
    progress = await ctx.service(PlanStore).progress_of(ctx.conversation_id, ctx.message_id, ctx.tool_call_id)
    if progress is not None:  # of a revision
        left -= progress.n_executed
    if len(drafts) <= left:
        return listed
    return f"{listed}\n\nOf these {count(len(drafts), 'step')} at most {left} can be carried out."


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
    _permission,
    CATEGORY,
    idempotent=True,
    preview=_preview,
    asks_as="plan",
    wants_to="carry out a plan",
    stands_alone=True,
)

plan_decide = Tool(
    PLAN_DECIDE,
    "Say how the plan goes on. Call it once.",
    PlanDecision,
    _decide,
    _permission,
    CATEGORY,
    idempotent=True,
    preview=_preview,
    asks_as="plan",
    wants_to="carry out a plan",
    stands_alone=True,
)


@tool(name="report_failure", category=CATEGORY, idempotent=True)
async def _report_failure(ctx: ToolContext, reason: Annotated[str, "What went wrong and what was tried."]) -> str:
    """Say that the step cannot be done. Call it instead of writing a result that is none; then answer in a sentence."""
    del ctx, reason
    return "Noted. Answer in a sentence."


report_failure = replace(_report_failure, is_last_word=True)

REPORT_FAILURE = report_failure.name


@lru_cache(maxsize=64)
def naming(entry: Tool, step_tools: tuple[str, ...]) -> Tool:
    """The tool of an agent that writes steps, whose description names what steps can use.

    It is the same tool for every engine with the same tools: its schema and manual are made once, too.
    """
    names = ", ".join(name for name in step_tools if name != REPORT_FAILURE)
    return replace(entry, description=f"{entry.description} Steps can use: {names or 'no tools'}.")


PLAN_TOOLS = (plan_create, plan_decide, report_failure)
