"""What is told of a miss: who asked for what, how it differs from what was recorded, and what to do."""

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher, unified_diff
from itertools import islice, takewhile, zip_longest
from typing import Any

import orjson

from artifactflow_nb.approvals import Decision
from artifactflow_nb.messages import Message, ToolResult
from artifactflow_nb.recordings.identity import Asked
from artifactflow_nb.recordings.tape import Asking, Calling
from artifactflow_nb.recordings.values import Prompt, RecordedAsk, RecordedCall, RecordedRun, RecordedTurn

_MANUAL = re.compile(r"^### (\w+)$", re.MULTILINE)
"""The heading of a tool in a prompt of the text protocol."""

_DIFF_LINES = 24
_COMPARED_CHARS = 4_000
_COMPARED_LINES = 400
RE_RECORD = (
    'To record only what is new, execute the notebook once with mode="auto" (AF_MODE=auto), its model at hand; '
    'to record everything anew, with mode="record".'
)


def told_of_prompt(asking: Asking, turn: RecordedTurn, now: Prompt) -> str | None:
    """How a request differs from the recorded one at its place; None if it does not."""
    found = list(_differences(turn, asking.agent, now))
    return _told(_where(asking, turn.path), found) if found else None


def told_of_unknown(asking: Asking, path: str, now: Prompt, recording: RecordedRun) -> str:
    """That nothing is recorded at a place, with the nearest that there is."""
    where = _where(asking, path)
    near = nearest(asking, now, recording)
    if near is None:
        return _told(where, ["the recording has no model call at all"])
    last = max((turn.step for turn in recording.turns if turn.path == path), default=0)
    found = [f"the recording of this job ends with step {last}" if last else "the recording has no such job"]
    found.append(f"nearest is step {near.step} of job {near.path}, which differs so:")
    return _told(where, [*found, *_differences(near, asking.agent, now)])


def told_of_place(asked: Asked, recording: RecordedRun) -> Iterator[str]:
    """How a question that is recorded was asked otherwise than now: the flow, the model, the budget, or where."""
    chosen = ("model", "budget")
    found = [(name, recording.settings.get(name), asked.settings.get(name)) for name in chosen]
    differing = [one for one in [("flow", recording.flow, asked.flow), *found] if one[1] != one[2]]
    yield f"The run {recording.run_id} has the same question, and differs:"
    for name, before, after in differing:
        yield f"{name}: recorded {before or 'none'}, now {after or 'none'}"
    if not differing:
        yield "it was asked after another message, or less often there than now"


def told_of_graph(recorded: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> list[str]:
    """How the graph that is asked differs from the recorded one, or what it gets; empty if nothing does.

    What is not known of both, as the tools of one that was described earlier, is not compared. Nor are models: where a
    run is played, none needs to be at hand.
    """
    if recorded is None or now is None:
        return [] if recorded is now else ["it is no graph of a user's own" if now is None else "it was none then"]
    found = []
    for what in ("nodes", "edges", "tools"):
        if what in recorded and what in now:
            before, after = set(recorded[what]), set(now[what])
            found += [f"{what}: {one} is not there now" for one in sorted(before - after)]
            found += [f"{what}: {one} is new" for one in sorted(after - before)]
    if "input" in recorded and "input" in now and recorded["input"] != now["input"]:
        found += ["what it gets:", *_diff(_written(recorded["input"]), _written(now["input"]))]
    return found


def _written(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def told_of_call(calling: Calling, call: RecordedCall | None, result: ToolResult | None, question: str) -> str | None:
    """How a tool call, or what came of it now, differs from the recorded one; None if it does not."""
    where = f"{calling.agent} called {calling.tool}"
    if call is None:
        return _told(where, [f"the recording of {question!r} has no such call"])
    found = []
    if call.tool != calling.tool:
        found.append(f"tool: recorded {call.tool}, now {calling.tool}")
    found += _params(call, calling)
    if call.result is None:
        found.append("the recorded call never finished: its process was gone")
    elif result is not None and (result.success, result.data, result.error) != (
        call.result.success,
        call.result.data,
        call.result.error,
    ):
        found += [
            "what it gave:",
            *_diff(call.result.data or call.result.error or "", result.data or result.error or ""),
        ]
    return _told(where, found) if found else None


def told_of_decision(ask: RecordedAsk, decision: Decision) -> str | None:
    """How a decision differs from the recorded one; None if it does not."""
    recorded = ask.decision
    if recorded is None or _content(recorded) == _content(decision):
        return None
    return _told("A decision was taken", [f"recorded: {_in_words(recorded)}, now: {_in_words(decision)}"])


def nearest(asking: Asking, now: Prompt, recording: RecordedRun) -> RecordedTurn | None:
    """The recorded model call that a request is most like: of the same agent if there is one."""
    of_agent = [turn for turn in recording.turns if turn.agent == asking.agent] or list(recording.turns)
    asked = _ending(now)
    return max(
        of_agent, key=lambda turn: SequenceMatcher(None, asked, _ending(turn.prompt)).quick_ratio(), default=None
    )


def _ending(prompt: Prompt) -> str:
    return "\n".join(message.content[-_COMPARED_CHARS:] for message in prompt.messages[1:])[-_COMPARED_CHARS:]


def _where(asking: Asking, path: str) -> str:
    return f"{asking.agent} asked its model (step {asking.step} of job {path})"


def _told(where: str, found: list[str]) -> str:
    return "\n".join([f"{where}, and that is not recorded so.", *found, RE_RECORD])


def _differences(turn: RecordedTurn, agent: str, now: Prompt) -> Iterator[str]:
    recorded = turn.prompt
    for what, before, after in (
        ("agent", turn.agent, agent),
        ("model", recorded.model, now.model),
        ("temperature", recorded.temperature, now.temperature),
        ("tool protocol", recorded.tool_protocol, now.tool_protocol),
        ("tool choice", recorded.tool_choice, now.tool_choice),
    ):
        if before != after:
            yield f"{what}: recorded {before}, now {after}"
    if recorded.tool_protocol != now.tool_protocol:
        return  # every prompt is written otherwise then
    yield from _tools(recorded, now)
    for n, (was, is_now) in enumerate(zip_longest(recorded.messages, now.messages), 1):
        if was != is_now:
            yield f"message {n} of the prompt ({_role(was, is_now)}):"
            yield from _diff(_text(was), _text(is_now))


def _tools(recorded: Prompt, now: Prompt) -> Iterator[str]:
    before, after = _manuals(recorded), _manuals(now)
    for name in sorted({*before, *after}):
        if name not in after:
            yield f"tool {name}: recorded, not there now"
        elif name not in before:
            yield f"tool {name}: new"
        elif before[name] != after[name]:
            yield f"tool {name}: its description or its parameters changed"
            if now.tools:  # in the text protocol the prompt has them
                yield from _diff(before[name], after[name])


def _manuals(prompt: Prompt) -> dict[str, str]:
    """What the model is told of each tool, by name."""
    if prompt.tools:
        return {str(tool["name"]): orjson.dumps(tool, option=orjson.OPT_INDENT_2).decode() for tool in prompt.tools}
    _, _, manual = prompt.messages[0].content.partition("<tools>") if prompt.messages else ("", "", "")
    parts = _MANUAL.split(manual.partition("</tools>")[0])
    return dict(zip(parts[1::2], parts[2::2], strict=False))


def _params(call: RecordedCall, calling: Calling) -> Iterator[str]:
    for name in sorted({*call.args, *calling.args}):
        before, after = call.args.get(name), calling.args.get(name)
        if before != after:
            yield f"parameter {name}: recorded {before!r:.200}, now {after!r:.200}"


def _role(before: Message | None, after: Message | None) -> str:
    known = after or before
    if before is None or after is None:
        return f"{known.role if known else ''}, {'new' if before is None else 'not there now'}"
    return before.role if before.role == after.role else f"recorded {before.role}, now {after.role}"


def _text(message: Message | None) -> str:
    if message is None:
        return ""
    calls = "".join(f"\n[call {call.name} {dict(call.params)}]" for call in message.calls)
    return message.content + calls


def _diff(before: str, after: str) -> Iterator[str]:
    """The lines that differ, a few around them, and not more than a screen."""
    were, are = _part_that_differs(before.splitlines(), after.splitlines())
    lines = unified_diff(were[:_COMPARED_LINES], are[:_COMPARED_LINES], "recorded", "now", lineterm="", n=1)
    shown = list(islice(lines, _DIFF_LINES + 1))
    yield from (line[:400] for line in shown[:_DIFF_LINES])
    if len(shown) > _DIFF_LINES or max(len(were), len(are)) > _COMPARED_LINES:
        yield "..."


def _part_that_differs(before: list[str], after: list[str]) -> tuple[list[str], list[str]]:
    """The lines from the one before the first that differs: to compare is quadratic, and prompts may be long."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    start = max(sum(1 for _ in same) - 1, 0)
    return before[start:], after[start:]


def _content(decision: Decision) -> tuple[object, ...]:
    params = None if decision.params is None else dict(decision.params)
    return decision.word, decision.instruction, params, decision.scope


def _in_words(decision: Decision) -> str:
    said = f" ({decision.instruction})" if decision.instruction else ""
    return f"{decision.word}{said} for {decision.scope}"
