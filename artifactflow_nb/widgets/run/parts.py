"""Parts of a transcript: jobs, turns, tool calls, plans and permission requests.

A plan contains jobs, and a tool call may have created a plan, so the classes are in one module. A call has only the id
of its subrun; the `RunTranscript` has the subrun's transcript.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from artifactflow_nb.core.approvals import DENIED_ERRORS, QUESTION_KIND, ApprovalRequest
from artifactflow_nb.core.plan import REPLANNING_AGENT, STEP_STATUSES
from artifactflow_nb.core.text.shortened import GrowingText
from artifactflow_nb.core.toolcalls.streamed import PartialParameter
from artifactflow_nb.errors import RunCancelled
from artifactflow_nb.store.runs import RUNNING
from artifactflow_nb.tools.lead import call_subagent

_WRITTEN_PARAM = "content"
_TITLE_PARAM = "title"


class StreamingText:
    """The reply of one model call so far.

    Attributes:
        prose: The visible part.
        call_chars: Number of characters of tool calls; 0 before the first call.
        call_name: Tool of the last call; empty until the name has arrived.
        written: Text that the last call writes: its parameter `content`.
        title: Title of `written`: the parameter `title`, or an empty string.
        agents: The agents of the calls that delegate.
    """

    def __init__(self) -> None:
        self.prose = GrowingText()
        self.call_chars = 0
        self.call_name = ""
        self.written = GrowingText()
        self.title = ""
        self._content = PartialParameter(_WRITTEN_PARAM)
        self._title = PartialParameter(_TITLE_PARAM)
        self.agents: list[str] = []
        self._agent = PartialParameter("agent_name")

    def append_call(self, tool: str, delta: str) -> None:
        """Add the next chunk of a tool call."""
        self.call_chars += max(len(delta), 1)  # at least 1, to display a native call before its arguments
        self.call_name = tool
        text, is_new = self._content.read(delta)
        if is_new:
            self.written = GrowingText()
        self.written.append(text)
        title, is_new = self._title.read(delta)
        self.title = title if is_new else self.title + title
        agent, is_new = self._agent.read(delta)
        if is_new:
            self.agents.append(agent)
        elif agent:
            self.agents[-1] += agent

    def settle(self, text: str) -> None:
        """Replace the prose by the final text when the model call ends."""
        if self.prose.text != text:  # equal text keeps its rendered blocks
            self.prose = GrowingText(text)
        self.call_chars, self.call_name = 0, ""


CHARS_PER_TOKEN = 4
"""The ratio by which the tokens of a text are estimated, as in `models.base.estimate_usage`."""


@dataclass(slots=True)
class TranscriptRequest:
    """A permission request.

    Attributes:
        id: Id of the request.
        kind: Subject of the request, for example `tool`, `plan` or `budget`.
        agent: The requesting agent or graph node.
        tool: The tool that waits for approval.
        tool_call_id: The waiting call; equal to `id` if the request belongs to no tool call.
        title: Title of the card.
        preview: Content that the call would write or send, in Markdown.
        message: Explanation for the person.
        params: Parameters of the call, or the values to decide on.
        approved: The verdict; None while the request is open.
        decision: `approved`, `edited`, `instructed` or `denied`; empty while open.
        scope: Scope of the approval, for example `once` or `run`.
        decided_by: The person, policy or reviewer that decided.
        instruction: Note or answer of the person.
        parent_tool: In a subrun, the tool whose call the run carries out; otherwise empty.
        allowed: The possible choices of a decision; empty: all choices.
        hosts: The hosts that the call reads from; empty for other tools.
        asked_at: Time of the request; None for a request from the store.
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
    parent_tool: str = ""
    allowed: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    asked_at: datetime | None = None

    @classmethod
    def from_stored(cls, request: ApprovalRequest) -> Self:
        """Create an undecided request from a stored request."""
        return cls(
            request.id,
            request.kind,
            request.agent,
            request.tool,
            request.tool_call_id or request.id,  # not every request belongs to a tool call
            request.title,
            request.preview,
            request.message,
            request.params,
            allowed=request.allowed,
            hosts=request.hosts,
        )

    @property
    def is_for_call(self) -> bool:
        """True if a tool call waits for the decision and runs after approval."""
        return self.tool_call_id != self.id and self.kind != QUESTION_KIND

    @property
    def is_answered_question(self) -> bool:
        """Whether the request asked the person for words, and was answered or refused."""
        return bool(self.decision) and (self.kind == QUESTION_KIND or (self.is_settled and not self.approved))

    @property
    def is_settled(self) -> bool:
        """Whether the request was approved, or was a question that was answered."""
        return bool(self.approved) or (self.decision == "instructed" and not self.is_for_call)


@dataclass(slots=True)
class TranscriptCall:
    """A tool call.

    Attributes:
        id: Id of the call; for a request without a call, the id of the request.
        tool: Name of the tool.
        params: Parameters, as last edited by a person.
        status: `running`, `waiting`, `ok`, `failed`, `cancelled` or `abandoned`.
        started_at: Time of the start; None for a call that has not started.
        duration_ms: Duration; None until the call has completed.
        error: Error message, or an empty string.
        metadata: Metadata of the result.
        subrun_id: The run that carries out the call, or an empty string.
        waited_before_ms: Time for which the run had waited for the person when the call started.
        wait_ms: Time for which the run waited for the person during the call; 0 until the call has completed.
    """

    id: str
    tool: str
    params: Mapping[str, Any]
    status: str = "running"
    started_at: datetime | None = None
    duration_ms: float | None = None
    error: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    request: TranscriptRequest | None = None
    job: "TranscriptJob | None" = None
    plan: "TranscriptPlan | None" = None
    subrun_id: str = ""
    waited_before_ms: float = 0.0
    wait_ms: float = 0.0

    @property
    def is_call(self) -> bool:
        """Whether this is a tool call; False for a question to the person."""
        return self.request is None or self.request.is_for_call

    @property
    def is_denied(self) -> bool:
        """True if a person or a policy denied the call, or answered instead."""
        return self.metadata.get("error_type") in DENIED_ERRORS

    @property
    def has_failed(self) -> bool:
        """True if the call ended with an error; a denied or cancelled call has not failed."""
        is_cancelled = self.metadata.get("error_type") == RunCancelled.__name__
        return self.status == "failed" and bool(self.error) and not (self.is_denied or is_cancelled)

    @property
    def n_read(self) -> tuple[int, int]:
        """The numbers of addresses that a reading call has read and has failed to read."""
        results, failed = (self.metadata.get(name) or () for name in ("results", "failed"))
        return len(results), len(failed) or (len(self.params.get("urls") or ()) if self.has_failed else 0)

    @property
    def is_delegation(self) -> bool:
        """True if the call only hands a task to a sub-agent; other tools may start agents too."""
        return self.tool == call_subagent.name


@dataclass(slots=True)
class TranscriptTurn:
    """One model call and the tool calls that it requested.

    Attributes:
        key: Id of the model call.
        start_index: Sequence number of the first event.
        end_index: Sequence number of the last event; None until the turn is done.
        usage: Token usage; empty until the turn is done.
        cost_usd: Cost; None if unknown.
        duration_ms: Duration of the model call.
        reply: The reply without reasoning.
        reasoning_started_at: Time of the first piece of reasoning; None before the first piece.
        reasoning_ms: Duration of the reasoning; None during the reasoning, and if unknown.
        kinds: The kinds of the chunks that were applied so far, such as `reasoning`.
        is_done: Whether the model call has completed.
        is_computed: Whether no language model was used.
        latest_piece_at: Time of the latest piece of the reply; None before the first piece.
        retries: Reason and delay in milliseconds of each retry.
        middleware_errors: Errors of middleware during the turn.
        tools: The tool calls, and the questions to the person.
    """

    key: str
    agent: str = ""
    start_index: int = 0
    end_index: int | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    cost_usd: float | None = None
    duration_ms: float = 0.0
    reply: StreamingText = field(default_factory=StreamingText)
    reasoning: GrowingText = field(default_factory=GrowingText)
    reasoning_started_at: datetime | None = None
    reasoning_ms: float | None = None
    kinds: set[str] = field(default_factory=set)
    is_done: bool = False
    is_computed: bool = False
    latest_piece_at: datetime | None = None
    retries: list[tuple[str, float]] = field(default_factory=list)
    middleware_errors: list[str] = field(default_factory=list)
    tools: list[TranscriptCall] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Text of the reply, without calls and reasoning."""
        return self.reply.prose.text.strip()

    @property
    def calls(self) -> list[TranscriptCall]:
        """The tool calls, without questions to the person."""
        return [call for call in self.tools if call.is_call]

    @property
    def tokens(self) -> "TranscriptTokens":
        """The tokens of the reply; for an incomplete reply, an estimate from its text, without the prompt.

        A reply that no language model wrote has no tokens.
        """
        if self.is_computed:
            return TranscriptTokens()
        if self.usage:
            return TranscriptTokens(int(self.usage.get("total_tokens") or 0), bool(self.usage.get("estimated")))
        n_chars = self.reasoning.n_chars + self.reply.prose.n_chars + self.reply.call_chars
        return TranscriptTokens(-(-n_chars // CHARS_PER_TOKEN), n_chars > 0)

    @property
    def requesting_nodes(self) -> list[str]:
        """Graph nodes that asked the person directly, outside a tool."""
        questions = [call.request for call in self.tools if call.request and not call.request.is_for_call]
        return [request.agent for request in questions if request.agent == request.tool]

    def overlaps(self, other: "TranscriptTurn") -> bool:
        """Return whether both turns were running at the same time."""
        return all(a.end_index is None or b.start_index < a.end_index for a, b in ((self, other), (other, self)))


@dataclass(slots=True)
class TranscriptJob:
    """Work of one agent: the lead, one delegation or one step of a plan. In a graph, several nodes take turns.

    Attributes:
        id: Id of the job.
        agent: The agent; empty while unknown.
        instruction: The task.
        turns: The turns, in the order in which they started.
        awaiting_since: Time of a model request that has no text yet, or None.
    """

    id: str
    agent: str
    instruction: str = ""
    model: str = ""
    turns: list[TranscriptTurn] = field(default_factory=list)
    awaiting_since: datetime | None = None

    @property
    def tools(self) -> list[TranscriptCall]:
        """Tool calls and questions of all turns."""
        return [call for turn in self.turns for call in turn.tools]

    @property
    def calls(self) -> list[TranscriptCall]:
        """Tool calls of all turns, without questions to the person."""
        return [call for turn in self.turns for call in turn.calls]

    def all_calls(self) -> Iterator[TranscriptCall]:
        """Yield tool calls and questions, each followed by the calls and questions of the jobs that it started."""
        for call in self.tools:
            yield call
            steps = call.plan.steps if call.plan else ()
            jobs = [*([call.job] if call.job else ()), *(job for step in steps for job in step.jobs)]
            for job in jobs:
                yield from job.all_calls()

    @property
    def tokens(self) -> "TranscriptTokens":
        """The tokens of all turns."""
        return sum((turn.tokens for turn in self.turns), TranscriptTokens())

    @property
    def agents(self) -> list[str]:
        """Distinct names of the agents that took turns and of the graph nodes that asked the person."""
        names = [name for turn in self.turns for name in (turn.agent, *turn.requesting_nodes) if name]
        return list(dict.fromkeys(names)) or [self.agent]


@dataclass(slots=True)
class TranscriptStep:
    """A step of a plan and the work done for it.

    Attributes:
        id: Id of the step.
        title: Title of the step.
        status: Status from the plan; a step that was running when its run ended has the run's status: `failed`,
            `cancelled` or `abandoned`.
        result: Result, or the reason why the step failed or was skipped.
        n_attempts: Number of attempts.
        jobs: The agents that attempted the step and, after an attempt, the replanner.
        started_at: Start of the current attempt, or its continuation after a pause; None while no attempt is running.
        duration_ms: Sum of the attempts before `started_at`, without pauses.
    """

    id: str
    title: str
    description: str = ""
    status: str = "pending"
    result: str = ""
    n_attempts: int = 0
    jobs: list[TranscriptJob] = field(default_factory=list)
    started_at: datetime | None = None
    duration_ms: float = 0.0

    def end(self, at: datetime) -> None:
        """Stop the clock of the current attempt, at its end or at a pause."""
        if self.started_at is not None:
            self.duration_ms += max((at - self.started_at).total_seconds() * 1000, 0.0)
        self.started_at = None


@dataclass(slots=True)
class TranscriptPlan:
    """A plan and the work done for it.

    Attributes:
        title: Title of the plan.
        steps: The steps, in order.
        notes: Reasons of the revisions.
        jobs: Agents that work for the whole plan, such as the summarizer.
    """

    title: str = ""
    steps: list[TranscriptStep] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    jobs: list[TranscriptJob] = field(default_factory=list)
    _last_started: TranscriptStep | None = None

    @property
    def running(self) -> tuple[int, TranscriptStep] | None:
        """The number and the running step; None between two steps."""
        return next(((n, step) for n, step in enumerate(self.steps, 1) if step.status == RUNNING), None)

    def revise(self, steps: Iterable[Mapping[str, Any]]) -> None:
        """Replace the steps by the steps of an event; steps that remain keep their jobs and results."""
        former_steps = {step.id: step for step in self.steps}
        self.steps = []
        for data in steps:
            step_id, title, description = (str(data.get(name) or "") for name in ("id", "title", "description"))
            step = former_steps.get(step_id) or TranscriptStep(step_id, title)
            step.title, step.description, step.status = title, description, _step_status(data)
            self.steps.append(step)
        # Jobs of removed steps stay visible, below the plan as a whole.
        removed = [step for step in former_steps.values() if step.jobs and step not in self.steps]
        self.jobs = [*(job for step in removed for job in step.jobs), *self.jobs]

    def update(self, steps: Iterable[Mapping[str, Any]], reason: str, at: datetime) -> None:
        """Apply status changes of steps that were not executed, for example of skipped steps."""
        for data in steps:
            step = self._step(str(data.get("id", "")), str(data.get("title", "")))
            step.status = _step_status(data)
            if step.status in {"failed", "skipped"}:
                step.result = reason
                step.end(at)

    def start(self, data: Mapping[str, Any], job: TranscriptJob, at: datetime) -> None:
        """Apply the start of a step by an agent."""
        step = self._last_started = self._step(str(data.get("step_id", "")), str(data.get("title", "")))
        step.status, step.result, step.started_at = RUNNING, "", at
        step.n_attempts = int(data.get("attempt") or step.n_attempts + 1)
        step.jobs.append(job)

    def complete(self, data: Mapping[str, Any], at: datetime) -> None:
        """Apply the result of a step."""
        step = self._step(str(data.get("step_id", "")), str(data.get("title", "")))
        step.status, step.result = _step_status(data), str(data.get("result") or "")
        step.end(at)

    def add(self, job: TranscriptJob) -> None:
        """Add a job that has no `step_start` event: a replanning to the last started step, another job to the plan."""
        step = self._last_started if job.agent == REPLANNING_AGENT else None
        (self.jobs if step is None else step.jobs).append(job)

    def pause(self, at: datetime) -> None:
        """Stop the clock of the running step while the run waits for a person."""
        if self.running:
            self.running[1].end(at)

    def resume(self, at: datetime) -> None:
        """Restart the clock of the running step after a pause."""
        if self.running:
            self.running[1].started_at = at

    def settle(self, before: str, after: str, at: datetime | None = None) -> None:
        """Change the status of steps from `before` to `after` when their run ends or its process dies."""
        for step in self.steps:
            if step.status == before:
                step.status = after
                if at is not None:
                    step.end(at)

    def _step(self, step_id: str, title: str) -> TranscriptStep:
        """Return the step with this id; a missing step, which a person may have added to the plan, is created."""
        step = next((step for step in self.steps if step.id == step_id), None)
        if step is None:
            step = TranscriptStep(step_id, title)
            self.steps.append(step)
        step.title = title or step.title
        return step


def _step_status(data: Mapping[str, Any]) -> str:
    """Return the status in an event; `pending` for unknown values, which an imported file may contain."""
    return next((status for status in STEP_STATUSES if status == data.get("status")), "pending")


@dataclass(frozen=True, slots=True)
class TranscriptArtifact:
    """The newest version of an artifact that the run wrote."""

    artifact_id: str
    version: int
    title: str
    content_type: str


@dataclass(frozen=True, slots=True)
class TranscriptTokens:
    """A number of tokens, and whether the number contains an estimate from the size of a text."""

    n: int = 0
    is_estimated: bool = False

    def __add__(self, other: "TranscriptTokens") -> "TranscriptTokens":
        return TranscriptTokens(self.n + other.n, self.is_estimated or other.is_estimated)


@dataclass(frozen=True, slots=True)
class TranscriptTotals:
    """Usage of a run; tokens include estimates for running calls. The cost is None if no price is known.

    `n_llm_calls` counts the model calls with a complete reply, as the frame of the runs does; `n_unanswered` the
    attempts that failed, and `n_stopped` the attempts that a person stopped.
    """

    tokens: TranscriptTokens = TranscriptTokens()
    n_llm_calls: int = 0
    n_tool_calls: int = 0
    cost_usd: float | None = None
    n_unanswered: int = 0
    n_failed_calls: int = 0
    n_stopped: int = 0

    def __add__(self, other: "TranscriptTotals") -> "TranscriptTotals":
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return TranscriptTotals(
            self.tokens + other.tokens,
            self.n_llm_calls + other.n_llm_calls,
            self.n_tool_calls + other.n_tool_calls,
            sum(costs) if costs else None,
            self.n_unanswered + other.n_unanswered,
            self.n_failed_calls + other.n_failed_calls,
            self.n_stopped + other.n_stopped,
        )
