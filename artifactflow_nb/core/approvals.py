"""Approval requests, decisions and policies.

A policy is applied to each request first: `ask` forwards the request to a person, `approve` and `deny` decide
at once. The `Decision` is the same value whether a button, code or a policy made the decision.
"""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from artifactflow_nb.core.language import agent_label
from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, CardTable, Code, Details, MarkdownText
from artifactflow_nb.core.text.format import storable_text, value_text
from artifactflow_nb.errors import UsageError, brief, describe_error

Scope = Literal["once", "run", "conversation", "always"]
SCOPES: tuple[Scope, ...] = ("once", "run", "conversation", "always")
"""The scopes of a decision. Only a request about hosts allows `always`; see `ApprovalRequest.hosts`."""

CHOICES = ("approved", "edited", "denied", "instructed")
"""The possible choices of a decision; see `Decision.choice`."""

DENIED_ERRORS = frozenset({"PermissionDenied", "Instructed"})
"""Error types of tool calls that a person denied, or answered with an instruction instead."""

BUDGET_KIND = "budget"
"""Request kind and tool name of a request to exceed a run's budget."""

QUESTION_KIND = "question"
"""Request kind of a question to the person; a question is answered or denied, never approved."""

RequestKind = Literal["tool", "plan", "edit", "budget", "question"]

Verdict = Literal["ask", "approve", "deny"]
VERDICTS: tuple[Verdict, ...] = ("ask", "approve", "deny")


@dataclass(frozen=True, slots=True)
class ApprovalRequest(CardMixin):
    """A request for a person's approval.

    Attributes:
        id: Id of the request, which is decided once.
        run_id: The waiting run.
        kind: `tool`, `plan`, `edit`, `budget` or `question`.
        agent: The requesting agent.
        tool: The tool; `budget` for a budget extension, the node's name for an interrupt of an adapted graph.
        params: Parameters of the call; for a budget the limits after approval.
        title: The question in one line.
        preview: Content that would be written or sent, in Markdown; empty if the parameters suffice.
        message: Reason for the request; empty if the tool's permission level suffices.
        tool_call_id: The waiting call, or an empty string.
        about: Identity of a subject that is not a call.
        allowed: The possible choices, some of `CHOICES`; empty if all are possible.
        hosts: The hosts that the call reads from. A decision about hosts covers all calls of the tool that read only
            from these hosts; the scope is the run, the conversation or the whole store.
    """

    id: str
    run_id: str
    kind: RequestKind
    agent: str
    tool: str
    params: Mapping[str, Any] = field(repr=False)
    title: str
    preview: str = field(default="", repr=False)
    message: str = ""
    tool_call_id: str = ""
    about: str = ""
    allowed: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """Identity of the subject: the tool call id, or `about`."""
        return self.tool_call_id or self.about

    @property
    def steps(self) -> tuple[tuple[str, str, str], ...]:
        """Steps of the plan to approve; see `proposed_steps`."""
        return proposed_steps(self.kind, self.params)

    def covers(self, other: "ApprovalRequest", decision: "Decision") -> bool:
        """Return whether the decision on this request also decides another open request of the same tool.

        An approval covers requests about the same hosts or fewer, a denial covers requests about any of the hosts.
        """
        if not self.hosts or not other.hosts:
            return decision.scope != "once" and self.hosts == other.hosts
        if decision.params is not None or decision.replaces_call:
            return False
        mine, others = set(self.hosts), set(other.hosts)
        return others <= mine if decision.approved else bool(others & mine)

    def allows(self, decision: "Decision") -> bool:
        """Return whether this request allows the choice of a decision."""
        return not self.allowed or decision.choice in self.allowed

    @property
    def sentence(self) -> str:
        """The title with the name of the agent in words."""
        is_engines = self.title.startswith(f"{self.agent} wants to ")
        return f"{agent_label(self.agent)}{self.title.removeprefix(self.agent)}" if is_engines else self.title

    @property
    def advice(self) -> str:
        """The code that decides the request in any kernel, as a sentence."""
        run = f'wb.run("{self.run_id}")'
        if self.kind == QUESTION_KIND:
            return f'Answer with {run}.answer("your answer", "{self.id}"), or use deny instead to leave it open.'
        return f'Decide with {run}.approve("{self.id}") or {run}.deny("reason", "{self.id}").'

    def _card(self) -> Card:
        steps = self.steps
        agent = agent_label(self.agent)
        rows: CardRows = [("agent", agent), ("tool", Code(self.tool)), ("reason", self.message)]
        rows += [("can be", ", ".join(self.allowed))] if self.allowed else []
        rows += [("hosts", Code(", ".join(self.hosts)))] if self.hosts else []
        rows += [("note", plan_note(self.preview))] if steps else []
        params = [
            (name, Code(value_text(value)))
            for name, value in self.params.items()
            if not (steps and name == "steps")  # the steps have a table of their own
        ]
        folds = [Details("Parameters", CardTable.from_rows(("name", "value"), params), is_open=True)] if params else []
        if steps:
            folds.append(Details("Steps", CardTable(STEP_COLUMNS, steps), is_open=True))
        elif self.preview:
            folds.append(Details("Preview", MarkdownText(self.preview), is_open=True))
        title = "Question" if self.kind == QUESTION_KIND else "Approval request"
        return Card(title, self.sentence, [*rows, ("run", Code(self.run_id))], folds, self.advice)


STEP_COLUMNS = ("step", "description", "tools")


def proposed_steps(kind: str, params: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """List the steps of a plan request as rows of `STEP_COLUMNS`; requests of other kinds have no steps.

    The parameters come from a model, so steps may be plain values instead of objects.
    """
    steps = params.get("steps") if kind == "plan" else None
    rows = []
    for number, step in enumerate(steps if isinstance(steps, list) else (), 1):
        fields = step if isinstance(step, Mapping) else {"title": step}
        tools = fields.get("tools")
        names = ", ".join(map(str, tools)) if isinstance(tools, list) else ""
        rows.append((f"{number}. {fields.get('title', '')}", value_text(fields.get("description", "")), names))
    return tuple(rows)


def plan_note(preview: str) -> str:
    """Return the note below the steps in a plan's preview, or an empty string."""
    return preview.partition("\n\n")[2]


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on an approval request.

    Attributes:
        approved: Whether the call may run.
        instruction: Message to the agent; may be empty.
        decided_by: `user`, `policy`, or `reviewer` for a model; on servers `http:` or `mcp:` and a name.
        params: Edited parameters of the call; None to run the call unchanged.
        scope: Calls of this tool that the decision covers: `once`, or all later calls of the `run` or `conversation`;
            for a request about hosts, calls to the same hosts, where `once` means `run`, and `always` is possible.
        replaces_call: Whether the instruction replaces the call, which neither runs nor counts as denied.
        by_code: Whether code decided, e.g. `run.approve()` in a cell, and not a click in a panel.
    """

    approved: bool
    instruction: str = ""
    decided_by: str = "user"
    params: Mapping[str, Any] | None = None
    scope: Scope = "once"
    replaces_call: bool = False
    by_code: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.instruction, str):  # a lone surrogate cannot be stored
            object.__setattr__(self, "instruction", storable_text(self.instruction))
        if self.scope not in SCOPES:
            raise UsageError(f"scope is {brief(self.scope)}; it must be one of {', '.join(map(repr, SCOPES))}.")
        if self.params is not None and not isinstance(self.params, Mapping):
            raise UsageError(f"params is {brief(self.params)}; pass all parameters of the call by name.")
        if self.params is not None and not self.approved:
            raise UsageError("Parameters were edited for a call that is not approved; approve it, or leave them out.")
        if self.replaces_call and (self.approved or not self.instruction.strip()):
            raise UsageError("A decision that replaces the call needs an instruction, and cannot approve the call.")

    @property
    def choice(self) -> str:
        """The decision as one word: `approved`, `edited`, `denied` or `instructed`."""
        if self.approved:
            return "approved" if self.params is None else "edited"
        return "instructed" if self.replaces_call else "denied"

    @property
    def approval(self) -> str:
        """The value in the row of a tool call: `policy` for an approval by the policy, else `choice`."""
        return "policy" if self.decided_by == "policy" and self.approved else self.choice


class Approver(Protocol):
    """An object that answers requests, for `Workbench(approvals=...)`."""

    def decide(self, request: ApprovalRequest, /) -> str:
        """Return `ask`, `approve` or `deny`; called in a thread, so it may block."""


ApprovalRule = str | Mapping[str, str] | Callable[[ApprovalRequest], str] | Approver


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Rule that decides requests before a person sees them.

    Attributes:
        rule: A verdict for all calls that need approval; or a verdict per tool name, which makes approval
            mandatory for every named tool; or a function from the request to a verdict, or an `Approver`.
        fallback: Verdict if the rule says `ask`: `ask` for a person, `approve` or `deny` for unattended runs
            (setting `AF_APPROVALS`).
    """

    rule: ApprovalRule = "ask"
    fallback: Verdict = "ask"
    _by_tool: Mapping[str, Verdict] = field(init=False, repr=False, default_factory=dict)
    _function: Callable[[ApprovalRequest], str] | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        _check_verdict("AF_APPROVALS", self.fallback)
        if isinstance(self.rule, str):
            _check_verdict("approvals", self.rule)
            return
        if isinstance(self.rule, Mapping):
            by_tool = {
                name: _check_verdict(f"approvals[{brief(name)}]", verdict) for name, verdict in self.rule.items()
            }
            object.__setattr__(self, "_by_tool", by_tool)
            return
        function = self.rule if callable(self.rule) else getattr(self.rule, "decide", None)
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise UsageError(
                f"approvals is {brief(self.rule)}; it must be a verdict ('ask', 'approve' or 'deny'), a mapping "
                "from tool names to verdicts, a plain function that returns a verdict for a request, or an object "
                "whose method `decide` returns a verdict."
            )
        object.__setattr__(self, "_function", function)

    def applies_to(self, tool: str, needs_confirmation: bool) -> bool:
        """Return whether calls of this tool go through the policy at all."""
        return needs_confirmation or self._by_tool.get(tool, "approve") != "approve"

    def check_tools(self, tools: Iterable[str]) -> None:
        """Raise `UsageError` for a rule about an unknown tool, because such a rule would silently never apply."""
        names = [*tools, BUDGET_KIND]
        if unknown := [name for name in self._by_tool if name not in names]:
            raise UsageError(f"approvals names an unknown tool {brief(unknown[0])}. Known: {', '.join(names)}.")

    async def forbids(self, request: ApprovalRequest) -> bool:
        """Return whether the rule denies the request; this denial overrides an earlier approval for the whole run."""
        if isinstance(self.rule, str):
            return self.rule == "deny"
        if isinstance(self.rule, Mapping):
            return self._by_tool.get(request.tool) == "deny"
        return await self._call_function(request) == "deny"

    async def decide(self, request: ApprovalRequest) -> Verdict:
        """Return the verdict on this request; a rule function may block, and therefore runs in a thread.

        The verdict `approve` for all calls denies a budget request: only a person, a function or a rule named `budget`
        can approve a budget request. No rule can answer a question: any verdict but `ask` denies the question.
        """
        blanket: Verdict = "ask"
        if isinstance(self.rule, str):
            verdict = blanket = _check_verdict("approvals", self.rule)
        elif isinstance(self.rule, Mapping):
            verdict = self._by_tool.get(request.tool, "ask")
        else:
            verdict = await self._call_function(request)
        if verdict == "ask":
            verdict = blanket = self.fallback
        if verdict != "ask" and request.kind == QUESTION_KIND:
            return "deny"
        return "deny" if request.kind == BUDGET_KIND and blanket != "ask" else verdict

    async def _call_function(self, request: ApprovalRequest) -> Verdict:
        assert self._function is not None  # noqa: S101 - the rule is neither a text nor a mapping
        try:
            answer = await asyncio.to_thread(self._function, request)
        except Exception as error:
            raise UsageError(f"The approvals function failed on {request.tool}: {describe_error(error)}") from error
        return _check_verdict("The approvals function's answer", answer)


def _check_verdict(source: str, verdict: str) -> Verdict:
    for allowed in VERDICTS if isinstance(verdict, str) else ():
        if verdict == allowed:
            return allowed
    raise UsageError(f"{source} is {brief(verdict)}; it must be one of 'ask', 'approve', 'deny'.")
