"""Questions to the person, and who answers them.

A policy looks at every call first: `ask` puts the call before a person, `approve` and `deny` answer at once. Whoever
decides (a button, code, a policy), the decision is the same value and the run goes the same way.
"""

import asyncio
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from artifactflow_nb.errors import UsageError, told
from artifactflow_nb.text.cards import Card, Code, Fold, Prose, Rows, Shown, Table

Scope = Literal["once", "run", "conversation"]
SCOPES: tuple[Scope, ...] = ("once", "run", "conversation")

BUDGET = "budget"
"""The kind, and the tool's name, of a request to spend more than a run's budget."""

Kind = Literal["tool", "plan", "edit", "budget"]

Verdict = Literal["ask", "approve", "deny"]
VERDICTS: tuple[Verdict, ...] = ("ask", "approve", "deny")


@dataclass(frozen=True, slots=True)
class ApprovalRequest(Shown):
    """A question to the person.

    Attributes:
        id: The request; decided once.
        run_id: The run that waits for it.
        kind: `tool`, `plan`, `edit` or `budget`.
        agent: Who wants to act.
        tool: With what; `budget` where the run wants to spend more, the node where an adapted graph asks.
        params: With which parameters; of a budget, the limits that would hold then.
        title: The question in a line.
        preview: What would be written or sent; empty if the parameters say it all.
        message: Why it is asked; empty if the permission says it all.
        tool_call_id: The call that waits; empty if the request is about no call.
        about: What the request is about where that is no call.
    """

    id: str
    run_id: str
    kind: Kind
    agent: str
    tool: str
    params: Mapping[str, Any] = field(repr=False)
    title: str
    preview: str = field(default="", repr=False)
    message: str = ""
    tool_call_id: str = ""
    about: str = ""

    @property
    def subject(self) -> str:
        """What is asked about, once: the tool call, or what `about` names."""
        return self.tool_call_id or self.about

    @property
    def steps(self) -> tuple[tuple[str, str, str], ...]:
        """The steps of a plan that is asked about; see `proposed_steps`."""
        return proposed_steps(self.kind, self.params)

    def _card(self) -> Card:
        steps = self.steps
        asks: Rows = [("agent", self.agent), ("tool", Code(self.tool)), ("why", self.message)]
        asks += [("note", note_on_steps(self.preview))] if steps else []
        params = [(name, Code(_told(one))) for name, one in self.params.items() if not (steps and name == "steps")]
        folds = [Fold("Parameters", Table.of(("name", "value"), params), is_open=True)] if params else []
        if steps:
            folds.append(Fold("Steps", Table(STEP_COLUMNS, steps), is_open=True))
        elif self.preview:
            folds.append(Fold("What would be done", Prose(self.preview), is_open=True))
        note = f'Decide with wb.approve("{self.id}") or wb.deny("{self.id}", "why").'
        return Card("Approval request", self.title, [*asks, ("run", Code(self.run_id))], folds, note)


STEP_COLUMNS = ("step", "what it takes", "tools")


def proposed_steps(kind: str, params: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """The steps that a request of this kind is about, as `STEP_COLUMNS` says; none if it is not about a plan."""
    steps = params.get("steps") if kind == "plan" else None
    found = [one if isinstance(one, Mapping) else {"title": one} for one in steps] if isinstance(steps, list) else []
    return tuple(
        (f"{number}. {step.get('title', '')}", _told(step.get("description", "")), _names(step.get("tools")))
        for number, step in enumerate(found, 1)
    )


def note_on_steps(preview: str) -> str:
    """What the preview of a plan says below its steps; empty if nothing."""
    return preview.partition("\n\n")[2]


def _names(tools: Any) -> str:
    return ", ".join(map(str, tools)) if isinstance(tools, list) else ""


def _told(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@dataclass(frozen=True, slots=True)
class Decision(Shown):
    """The answer to a request.

    Attributes:
        approved: Whether the call may run.
        instruction: What the person tells the agent along with it; empty if nothing.
        decided_by: `user` or `policy`.
        params: The parameters to run it with instead; None for those that were asked about.
        scope: For which calls of this tool it holds: `once`, or for all later ones of the `run` or the `conversation`.
        instead: Whether the instruction is the answer: the call does not run, and that is no denial.
        by_code: Whether code decided, such as `run.approve()` in a cell, which decides again when the notebook is run
            again; a click does not, and is replayed.
    """

    approved: bool
    instruction: str = ""
    decided_by: str = "user"
    params: Mapping[str, Any] | None = None
    scope: Scope = "once"
    instead: bool = False
    by_code: bool = True

    def __post_init__(self) -> None:
        if self.scope not in SCOPES:
            raise UsageError(f"scope is {self.scope!r}; it must be one of {', '.join(map(repr, SCOPES))}.")
        if self.params is not None and not isinstance(self.params, Mapping):
            raise UsageError(f"params is {self.params!r}; pass all parameters of the call by name.")
        if self.params is not None and not self.approved:
            raise UsageError("Parameters were edited for a call that is not approved; approve it, or leave them out.")
        if self.instead and (self.approved or not self.instruction.strip()):
            raise UsageError("An instruction instead of an approval must say something, and cannot approve.")

    def _card(self) -> Card:
        params = None if self.params is None else Code(_told(dict(self.params)))
        rows: Rows = [("says", self.instruction), ("runs with", params), ("holds for", self.scope)]
        return Card("Decision", self.word, [*rows, ("decided by", self.decided_by)])

    @property
    def word(self) -> str:
        """The decision in a word: `approved`, `edited`, `denied` or `instructed`."""
        if self.approved:
            return "approved" if self.params is None else "edited"
        return "instructed" if self.instead else "denied"


Policy = str | Mapping[str, str] | Callable[[ApprovalRequest], str]


@dataclass(frozen=True, slots=True)
class ApprovalPolicy:
    """Answers before a person is asked.

    Attributes:
        rule: One verdict for all calls that need a permission; or a verdict per tool, which also makes a tool ask that
            otherwise would not; or a function of the request that gives the verdict.
        stand_in: Who answers where the rule says `ask`: `ask` for the person, or a verdict in the person's place
            (`AF_APPROVALS`, for runs that nobody watches).
    """

    rule: Policy = "ask"
    stand_in: Verdict = "ask"
    _by_tool: Mapping[str, Verdict] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        _check("AF_APPROVALS", self.stand_in)
        if isinstance(self.rule, str):
            _check("approvals", self.rule)
        elif inspect.iscoroutinefunction(self.rule) or not (isinstance(self.rule, Mapping) or callable(self.rule)):
            raise UsageError(
                f"approvals is {self.rule!r}; it must be 'ask', 'approve' or 'deny', one of them for each tool "
                "by name, or a plain function of the request that gives one."
            )
        elif isinstance(self.rule, Mapping):
            by_tool = {name: _check(f"approvals[{name!r}]", verdict) for name, verdict in self.rule.items()}
            object.__setattr__(self, "_by_tool", by_tool)

    def concerns(self, tool: str, needs_confirmation: bool) -> bool:
        """Whether a call of this tool is put before the policy at all."""
        return needs_confirmation or self._by_tool.get(tool, "approve") != "approve"

    def check_tools(self, known: Iterable[str]) -> None:
        """Refuse a rule for a tool that does not exist: it would never be asked about; `UsageError` names it."""
        names = [*known, BUDGET]
        if unknown := [name for name in self._by_tool if name not in names]:
            raise UsageError(
                f"approvals names a tool {unknown[0]!r}, and there is none. Known are: {', '.join(names)}."
            )

    async def forbids(self, request: ApprovalRequest) -> bool:
        """Whether the rule itself says no, which holds against what a person approved for later calls, too."""
        if isinstance(self.rule, str):
            return self.rule == "deny"
        if isinstance(self.rule, Mapping):
            return self._by_tool.get(request.tool) == "deny"
        return await self._ask_function(self.rule, request) == "deny"

    async def decide(self, request: ApprovalRequest) -> Verdict:
        """The verdict on this request; a function is asked in a thread of its own, since it may take its time.

        One verdict for everything approves calls, and never that a budget is exceeded: that takes a person, a function
        or a rule of its own under the name `budget`.
        """
        blanket: Verdict = "ask"
        if isinstance(self.rule, str):
            verdict = blanket = _check("approvals", self.rule)
        elif isinstance(self.rule, Mapping):
            verdict = self._by_tool.get(request.tool, "ask")
        else:
            verdict = await self._ask_function(self.rule, request)
        if verdict == "ask":
            verdict = blanket = self.stand_in
        return "deny" if request.kind == BUDGET and blanket != "ask" else verdict

    @staticmethod
    async def _ask_function(rule: Callable[[ApprovalRequest], str], request: ApprovalRequest) -> Verdict:
        try:
            answer = await asyncio.to_thread(rule, request)
        except Exception as error:
            raise UsageError(f"The approvals function failed on {request.tool}: {told(error)}") from error
        return _check("The approvals function's answer", answer)


def _check(what: str, verdict: str) -> Verdict:
    for known in VERDICTS:
        if verdict == known:
            return known
    raise UsageError(f"{what} is {verdict!r}; it must be one of 'ask', 'approve', 'deny'.")
