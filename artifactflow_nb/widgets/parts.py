"""What a transcript is made of: jobs, their turns, the calls of a turn, the questions that calls raise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from artifactflow_nb.text.markdown_blocks import TextBlocks
from artifactflow_nb.tools.delegate import call_subagent
from artifactflow_nb.widgets.live_text import LiveText

if TYPE_CHECKING:
    from artifactflow_nb.widgets.plan_work import PlanWork
    from artifactflow_nb.widgets.transcript import Transcript


@dataclass(slots=True)
class Question:
    """A permission that was asked for; `approved` is None while it is open, `kind` says what for.

    One that is about no tool call has its own id for `tool_call_id`. `within` is the tool whose call the run that asks
    works for; empty for a run that works for none.
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
    within: str = ""

    @property
    def is_of_call(self) -> bool:
        """Whether a tool call waits for it, and runs once it is approved."""
        return self.tool_call_id != self.id

    @property
    def is_settled(self) -> bool:
        """Whether it was approved, or answered where it asked for nothing but an answer."""
        return bool(self.approved) or (self.decision == "instructed" and not self.is_of_call)


@dataclass(slots=True)
class ToolUse:
    """A tool call; `status` is `running`, `waiting`, `ok` or `failed`.

    `job` is the one that it delegated to, `plan` the plan that it made, `subrun` the run that carries it out.
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
    subrun: "Subrun | None" = None

    @property
    def is_call(self) -> bool:
        """Whether it is a call, and not only a question."""
        return self.question is None or self.question.is_of_call

    @property
    def is_delegation(self) -> bool:
        """Whether it only hands a task to a sub-agent; a tool of another kind may have agents work, too."""
        return self.tool == call_subagent.name


@dataclass(frozen=True, slots=True)
class Subrun:
    """A run that carries out a call.

    Attributes:
        run_id: The run.
        transcript: What happened in it, as far as it was taken in.
    """

    run_id: str
    transcript: "Transcript"

    @property
    def is_known(self) -> bool:
        """Whether anything of it was taken in: it may be in another store."""
        return self.transcript.started_at is not None


@dataclass(slots=True)
class Turn:
    """One turn of a model, and the calls that it asked for; `agent` is whose turn it was.

    `begun` and `ended` are the places of its beginning and its end among the events of the run; `usage` and what
    follows it are known once it is `done`. `kinds` names the kinds of chunk that have come: the first of a kind brings
    all text before it along, for a view that came late. `mishaps`: of middleware.
    """

    key: str
    agent: str = ""
    begun: int = 0
    ended: int | None = None
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

    @property
    def said(self) -> str:
        """Its text, without calls and reasoning."""
        return self.reply.prose.text.strip()

    @property
    def calls(self) -> list[ToolUse]:
        """The tool calls that it asked for."""
        return [use for use in self.tools if use.is_call]

    @property
    def askers(self) -> list[str]:
        """The nodes that asked the person by themselves, not within a tool."""
        asked = [use.question for use in self.tools if use.question and not use.question.is_of_call]
        return [question.agent for question in asked if question.agent == question.tool]

    def overlaps(self, other: "Turn") -> bool:
        """Whether both went on at the same time."""
        return all(a.ended is None or b.begun < a.ended for a, b in ((self, other), (other, self)))


@dataclass(slots=True)
class Job:
    """An agent at work: the lead, one delegation, one step of a plan; in a graph, nodes that take turns."""

    id: str
    agent: str
    instruction: str = ""
    model: str = ""
    turns: list[Turn] = field(default_factory=list)

    @property
    def tools(self) -> list[ToolUse]:
        """The calls of all its turns."""
        return [use for turn in self.turns for use in turn.tools]

    @property
    def calls(self) -> list[ToolUse]:
        """Those of them that are no mere questions."""
        return [use for turn in self.turns for use in turn.calls]

    @property
    def agents(self) -> list[str]:
        """Whose turns they were, and which nodes of a graph asked the person, each once."""
        names = [name for turn in self.turns for name in (turn.agent, *turn.askers) if name]
        return list(dict.fromkeys(names)) or [self.agent]


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
