"""Alignment of the steps of two runs, causes before effects.

::

    main 1   model              prompt and reply
             call 1  decision   approval or denial by a person
                     ...        steps of the job that the call delegates
                     tool       parameters and result
             call 2  ...
    main 2   model  ...

Steps are paired by their position in the tree of calls, never by the time of day. Parallel jobs therefore appear in the
order of their calls, and a delegating call appears after the steps of its job.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

import orjson

from artifactflow_nb.core.language import agent_label
from artifactflow_nb.core.text.cards import Card, CardMixin, Code
from artifactflow_nb.core.text.diff import TextDiff
from artifactflow_nb.core.text.panels import comparison_heading, comparison_summary, panel_fold, panel_html
from artifactflow_nb.recording.rows import Row, RunRows
from artifactflow_nb.recording.steps import Step, steps_of
from artifactflow_nb.store.approvals import parse_decision
from artifactflow_nb.store.encoding import to_json

_PARTS = ("agent", "model", "settings", "tools", "prompt", "reply", "tool", "parameters", "decision", "result")
"""Names of the parts of steps, causes before effects."""

_DAY = re.compile("<system_time>[^<]*</system_time>")
"""The current time in a prompt; the time differs between runs, and is removed before prompts are compared."""

StepOutcome = Literal["same", "different", "only a", "only b"]
StepParts = Mapping[str, str]


@dataclass(frozen=True, slots=True, repr=False)
class StepDiff(CardMixin):
    """Difference between two runs at one step, with a card as its notebook representation.

    Attributes:
        a: The step of the first run; None if the run has no step at this position.
        b: The step of the second run; None if the run has no step at this position.
        differing_parts: Names of the parts that differ, causes before effects; empty if only one run has the step. The
            parts of a model turn are `agent`, `model`, `settings`, `tools`, `prompt`, `reply`; of a tool call `tool`,
            `parameters`, `decision`, `result`; of a decision `tool`, `decision`.
        is_fork_point: Whether one run is a fork of the other run and changed this step.
    """

    a: Step | None
    b: Step | None
    differing_parts: tuple[str, ...]
    is_fork_point: bool = False

    @property
    def step(self) -> Step:
        """The step of the first run, or else of the second run."""
        step = self.a or self.b
        if step is None:
            raise ValueError("Both steps are None; a difference needs at least one.")
        return step

    @property
    def outcome(self) -> StepOutcome:
        """`same`, `different`, `only a` or `only b`."""
        if self.a is None or self.b is None:
            return "only a" if self.b is None else "only b"
        return "different" if self.differing_parts else "same"

    @property
    def diffs(self) -> Mapping[str, TextDiff]:
        """Text difference of each part, by name; if only one run has the step, every part of the step."""
        parts_a, parts_b = (step_parts(step) if step else {} for step in (self.a, self.b))
        names = self.differing_parts or [n for n in {**parts_a, **parts_b} if parts_a.get(n) != parts_b.get(n)]
        return {name: TextDiff(parts_a.get(name, ""), parts_b.get(name, "")) for name in names}

    @property
    def number(self) -> str:
        """The number of the step: `4`; `4 (in b 6)` if run b has another number; `b 6` for a step of run b only."""
        number_a, number_b = (step.number if step else None for step in (self.a, self.b))
        if number_a is None:
            return f"b {number_b}"
        return f"{number_a}" if number_b in {None, number_a} else f"{number_a} (in b {number_b})"

    @property
    def title(self) -> str:
        """Step and differing parts, such as `step 4, search agent, tool web_search: parameters, result`."""
        step = self.step
        difference = ", ".join(self.differing_parts) or self.outcome
        return f"step {self.number}, {agent_label(step.agent)}, {step.kind} {step.name}: {difference}"

    @property
    def call_hint(self) -> str:
        """The code that gets this difference from a comparison, for hints in texts."""
        return f"comparison.step({'' if self.a else 'b='}{self.step.number})"

    def __repr__(self) -> str:
        return f"StepDiff({self.title!r})"

    def _card(self) -> Card:
        return Card("Comparison of a step", self.title, [("job", Code(self.step.path))])

    def _repr_html_(self) -> str:
        folds = (
            panel_fold(comparison_summary(name, ""), diff.table(), is_open=n == 0)
            for n, (name, diff) in enumerate(self.diffs.items())
        )
        return panel_html(comparison_heading("a step", f"{self.title} · job {self.step.path}") + "".join(folds))


def pair_steps(a: RunRows, b: RunRows) -> tuple[StepDiff, ...]:
    """Pair the steps of two runs by position, in order.

    Turns that a fork has copied never differ. If the fork changed the instruction of a delegation, the delegated job
    differs, not the turn with the call.
    """
    steps_a, steps_b = ({_position(step): step for step in steps_of(run)} for run in (a, b))
    fork_in_a, fork_in_b = _fork_point(b, a), _fork_point(a, b)
    paired = []
    for position in sorted({**steps_a, **steps_b}):
        step_a, step_b = steps_a.get(position), steps_b.get(position)
        origin, fork_point = (step_a, fork_in_a) if fork_in_a else (step_b, fork_in_b)
        number = origin.number if origin else fork_point + 1
        differing: tuple[str, ...] = ()
        is_copied_turn = number < fork_point and step_a is not None and step_a.kind == "model"
        if step_a is not None and step_b is not None and not is_copied_turn:
            parts_a, parts_b = step_parts(step_a), step_parts(step_b)
            differing = tuple(name for name in _PARTS if parts_a.get(name) != parts_b.get(name))
        paired.append(StepDiff(step_a, step_b, differing, number == fork_point))
    return tuple(paired)


def _fork_point(fork: RunRows, origin: RunRows) -> int:
    """Return the number of the step of `origin` that `fork` changed; 0 if `fork` is not a fork of `origin`."""
    change = orjson.loads(fork.run["settings_json"]).get("fork")
    return int(change["number"]) if change and change["of"] == origin.run_id else 0


def _position(step: Step) -> tuple[float, ...]:
    """Return the position of a step in the tree of calls, as numbers that sort in the order of the module's drawing."""
    calls = (call.partition(".") for call in step.path.split("/")[1:])
    job = (float(number) for turn, _, position in calls for number in (turn, position))
    if step.position is None:
        return *job, step.step, 0
    # A decision precedes the steps of the delegated job, which start with turn 1; the call's result follows the steps.
    return *job, step.step, step.position + 1, 0 if step.kind == "decision" else inf


def step_parts(step: Step) -> StepParts:
    """Return the texts to compare for a step, by the name of the part.

    A model turn has `agent`, `model`, `settings`, `tools`, `prompt`, `reply`; a decision `tool`, `decision`; a tool
    call `tool`, `parameters`, `result`, and `decision` if a policy or an earlier decision applied to it.
    """
    if step.kind == "decision":
        return {"tool": step.name, "decision": _decision_text(step.row)}
    if step.kind == "model":
        return _turn_parts(step)
    call, error = step.row, _parse_error(step.row)
    approvals = (row for row in step.rows["approvals"] if row["tool_call_id"] == call["tool_call_id"])
    settled = next((row for row in approvals if row["settled"]), None)
    unreadable = f"It could not be read: {error}" if error else ""
    result = str(call["result"] or "")
    if call["completed_at"] is None:
        result = "It did not finish."
    elif not call["success"]:
        result = f"Failed: {call['error_message']}\n{result}".rstrip("\n")
    return {
        "tool": call["tool_name"],
        "parameters": "\n".join(filter(None, [_params_text(orjson.loads(call["args_json"])), unreadable])),
        # A person's decision on this call is a separate step.
        **({"decision": _decision_text(settled)} if settled is not None else {}),
        "result": result,
    }


def _turn_parts(step: Step) -> StepParts:
    row, rows = step.row, step.rows
    offer = orjson.loads(row["offer_json"] or "{}")
    model = row["request_model"]
    # Endpoints may answer with a dated or a fallback model.
    response_model = f", answered by {row['response_model']}" if row["response_model"] not in {None, model} else ""
    settings = (row["temperature"], offer.get("tool_protocol", "xml"), offer.get("tool_choice", "auto"))
    tools = orjson.loads(rows.texts[offer["tools"]]) if offer.get("tools") else ()
    messages = (
        "\n".join([f"[{role}]", rows.texts[sha256], *(_call_text(name, params) for name, params in (calls or [[]])[0])])
        for role, sha256, *calls in rows.prompts[row["call_id"]]
    )
    native = rows.calls_of_replies.get(row["call_id"], ())[: offer.get("n_native_calls", 0)]
    calls = (_call_text(call["tool_name"], orjson.loads(call["args_json"]), _parse_error(call)) for call in native)
    reasoning = f"[reasoning]\n{row['reasoning']}\n\n" if row["reasoning"] else ""
    return {
        "agent": row["agent_name"],
        "model": f"{model} ({row['provider']}{response_model})",
        "settings": "temperature: {}\ntool protocol: {}\ntool choice: {}".format(*settings),
        "tools": "\n".join(to_json(tool) for tool in tools),
        # The same question asked a day later is not a difference.
        "prompt": _DAY.sub("", "\n\n".join(messages), count=1),
        "reply": "\n".join([f"{reasoning}{row['content']}", *calls]),
    }


def _call_text(name: str, params: Mapping[str, object], error: str | None = None) -> str:
    return "\n".join(filter(None, [f"[call {name}]", _params_text(params), error]))


def _parse_error(call: Row) -> str | None:
    return str(call["error_message"]) if call["error_type"] == "Unreadable" else None


def _params_text(params: Mapping[str, object]) -> str:
    """Write parameters by name, one per line; a string keeps its line breaks, so that a diff can compare its lines."""
    texts = ((name, value if isinstance(value, str) else to_json(value)) for name, value in sorted(params.items()))
    return "\n".join(f"{name}: {text}" for name, text in texts)


def _decision_text(request: Row) -> str:
    decision = parse_decision(request)
    if decision is None:
        return "open"
    lines = [f"{decision.choice} by {decision.decided_by}, for {decision.scope}", decision.instruction]
    return "\n".join(filter(None, [*lines, _params_text(decision.params) if decision.params is not None else ""]))
