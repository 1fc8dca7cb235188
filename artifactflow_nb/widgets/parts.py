"""What a transcript is made of: jobs, their turns, the calls of a turn, the questions that calls raise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from artifactflow_nb.text.markdown_blocks import TextBlocks
from artifactflow_nb.widgets.live_text import LiveText

if TYPE_CHECKING:
    from artifactflow_nb.widgets.plan_work import PlanWork


@dataclass(slots=True)
class Question:
    """A permission that was asked for; `approved` is None while it is open, `kind` says what for.

    One that is about no tool call has its own id for `tool_call_id`.
    """

    id: str
    kind: str
    agent: str
    tool: str
    tool_call_id: str
    title: str
    preview: str
    message: str
    params: Mapping[str, Any]
    approved: bool | None = None
    decision: str = ""
    scope: str = ""
    decided_by: str = ""
    instruction: str = ""

    @property
    def is_of_call(self) -> bool:
        """Whether a tool call waits for it, and runs once it is approved."""
        return self.tool_call_id != self.id


@dataclass(slots=True)
class ToolUse:
    """A tool call; `status` is `running`, `waiting`, `ok` or `failed`.

    `job` is the one that it delegated to, `plan` the plan that it made.
    """

    id: str
    tool: str
    params: Mapping[str, Any]
    status: str = "running"
    duration_ms: float | None = None
    error: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    question: Question | None = None
    job: "Job | None" = None
    plan: "PlanWork | None" = None


@dataclass(slots=True)
class Turn:
    """One turn of a model, and the calls that it asked for.

    `usage` and what follows it are known once it is `done`. `kinds` names the kinds of chunk that have come: the first
    of a kind brings all text before it along, for a view that came late. `mishaps`: of middleware.
    """

    key: str
    usage: Mapping[str, Any] = field(default_factory=dict)
    cost_usd: float | None = None
    duration_ms: float = 0.0
    reply: LiveText = field(default_factory=LiveText)
    reasoning: TextBlocks = field(default_factory=TextBlocks)
    kinds: set[str] = field(default_factory=set)
    done: bool = False
    retries: list[str] = field(default_factory=list)
    mishaps: list[str] = field(default_factory=list)
    tools: list[ToolUse] = field(default_factory=list)


@dataclass(slots=True)
class Job:
    """An agent at work: the lead, one delegation, one step of a plan."""

    id: str
    agent: str
    instruction: str = ""
    model: str = ""
    turns: list[Turn] = field(default_factory=list)

    @property
    def tools(self) -> list[ToolUse]:
        """The calls of all its turns."""
        return [use for turn in self.turns for use in turn.tools]


@dataclass(frozen=True, slots=True)
class Written:
    """An artifact in the newest version that the run wrote."""

    artifact_id: str
    version: int
    title: str
    content_type: str


@dataclass(frozen=True, slots=True)
class Totals:
    """What the run took so far, of completed calls; the cost is None where no price is known."""

    tokens: int = 0
    n_llm_calls: int = 0
    n_tool_calls: int = 0
    cost_usd: float | None = None
