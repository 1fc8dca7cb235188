"""The steps of two runs beside each other, causes before effects.

::

    main 1   model              what was asked, what came back
             call 1  decision   what a person said of it
                     ...        the steps of the job that it delegates
                     tool       what came of it
             call 2  ...
    main 2   model  ...

Steps are paired by their places, which follow from the calls that led there, never from the time of day. So jobs that
ran at the same time stand in the order of their calls, and a delegating call stands after what it delegated.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

from artifactflow_nb.messages import ToolCall, ToolResult
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.recordings.steps import Step, steps_of
from artifactflow_nb.recordings.values import Prompt, RecordedAsk, RecordedCall, RecordedRun, RecordedTurn
from artifactflow_nb.store.storable import to_json

_PARTS = ("agent", "model", "settings", "tools", "prompt", "reply", "tool", "parameters", "decision", "result")
"""What steps consist of, causes before effects."""

_DAY = re.compile("<system_time>[^<]*</system_time>")
"""How prompts name the day."""

Outcome = Literal["same", "different", "only a", "only b"]
Parts = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StepPair:
    """What two runs did at one place.

    Attributes:
        a: The step of the one run; None if it has none there.
        b: That of the other.
        differing: The names of the parts that differ, causes before effects; empty if not both are there.
    """

    a: Step | None
    b: Step | None
    differing: tuple[str, ...]

    @property
    def step(self) -> Step:
        """The one that is there, of the first run if it has it."""
        step = self.a or self.b
        if step is None:
            raise ValueError("A pair without steps.")
        return step

    @property
    def outcome(self) -> Outcome:
        """How the two compare."""
        if self.a is None or self.b is None:
            return "only a" if self.b is None else "only b"
        return "different" if self.differing else "same"


def pair_steps(a: RecordedRun, b: RecordedRun) -> tuple[StepPair, ...]:
    """The steps of two runs, paired and in order."""
    mine, other = ({_order(step): step for step in steps_of(run)} for run in (a, b))
    pairs = ((mine.get(place), other.get(place)) for place in sorted({**mine, **other}))
    return tuple(StepPair(one, two, _differing(one, two)) for one, two in pairs)


def _differing(a: Step | None, b: Step | None) -> tuple[str, ...]:
    if a is None or b is None:
        return ()
    mine, other = parts_of(a), parts_of(b)
    return tuple(name for name in _PARTS if mine.get(name) != other.get(name))


def _order(step: Step) -> tuple[float, ...]:
    """The place as numbers: those of a delegating call, then those within its job, infinity for the call itself."""
    calls = (call.partition(".") for call in step.path.split("/")[1:])
    job = (float(number) for turn, _, position in calls for number in (turn, position))
    if step.position is None:
        return *job, step.step, 0
    return *job, step.step, step.position + 1, 0 if step.kind == "decision" else inf


def parts_of(step: Step) -> Parts:
    """What a step consists of, as texts.

    Of a model turn `agent`, `model`, `settings`, `tools`, `prompt`, `reply`; of a decision `tool`, `decision`; of a
    tool call `tool`, `parameters`, `decision` if a policy or an earlier decision took it, `result`.
    """
    if step.ask is not None:
        return {"tool": step.name, "decision": _decision(step.ask)}
    return _parts_of_turn(step.turn) if step.call is None else _parts_of_call(step.call)


def _parts_of_turn(turn: RecordedTurn) -> Parts:
    prompt, reply = turn.prompt, turn.reply
    other = f", answered by {reply.model}" if reply and reply.model not in {None, prompt.model} else ""
    settings = (prompt.temperature, prompt.tool_protocol, prompt.tool_choice)
    return {
        "agent": turn.agent,
        "model": f"{prompt.model} ({turn.provider}{other})",
        "settings": "temperature: {}\ntool protocol: {}\ntool choice: {}".format(*settings),
        "tools": "\n".join(to_json(tool) for tool in prompt.tools),
        "prompt": _prompt(prompt),
        "reply": _reply(reply) if reply else "",
    }


def _prompt(prompt: Prompt) -> str:
    """The messages, without the day: what is asked again tomorrow is the same."""
    messages = (
        "\n".join([f"[{message.role}]", message.content, *map(_call, message.calls)]) for message in prompt.messages
    )
    return _DAY.sub("", "\n\n".join(messages), count=1)


def _reply(reply: ModelReply) -> str:
    thought = f"[reasoning]\n{reply.reasoning}\n\n" if reply.reasoning else ""
    return "\n".join([f"{thought}{reply.content}", *map(_call, reply.calls)])


def _call(call: ToolCall) -> str:
    return "\n".join(filter(None, [f"[call {call.name}]", _params(call.params), call.error]))


def _params(params: Mapping[str, object]) -> str:
    """Parameters, a text among them as it is: so that its lines can be compared."""
    told = ((name, value if isinstance(value, str) else to_json(value)) for name, value in sorted(params.items()))
    return "\n".join(f"{name}: {value}" for name, value in told)


def _parts_of_call(call: RecordedCall) -> Parts:
    unreadable = f"\nIt could not be read: {call.unreadable}" if call.unreadable else ""
    return {
        "tool": call.tool,
        "parameters": _params(call.args) + unreadable,
        **({"decision": _decision(call.ask)} if call.ask is not None and call.ask.settled else {}),
        "result": "It did not finish." if call.result is None else _result(call.result),
    }


def _result(result: ToolResult) -> str:
    return result.data if result.success else f"Failed: {result.error}\n{result.data}".rstrip("\n")


def _decision(ask: RecordedAsk) -> str:
    decision = ask.decision
    if decision is None:
        return "open"
    told = [f"{decision.word} by {decision.decided_by}, for {decision.scope}", decision.instruction]
    return "\n".join(filter(None, [*told, _params(decision.params) if decision.params is not None else ""]))
