"""The identity of a question in a notebook, and the texts of cassette misses.

The identity consists of the question's text, the message before the question, the settings, and a count of equal
questions after the same message. The identity contains no ids, because ids are new in each execution.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from itertools import islice
from typing import Any

import orjson

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.clock_ids import derived_id
from artifactflow_nb.core.local_files import shown_path
from artifactflow_nb.core.runs import DEPTH_SETTING, PARENT_CALL_SETTING, VARIATION_SETTING, WORK_SETTING, ParentCall
from artifactflow_nb.recording.cassette import Cassette, Head
from artifactflow_nb.recording.rows import Row


@dataclass(frozen=True, slots=True)
class Ask:
    """A question with the values that distinguish the question from other questions.

    Attributes:
        settings: The run's settings; `model`, `budget`, `depth`, `fork` and the project work belong to the identity.
        message_id: Id of the question's message; empty until the message is stored.
        parent_message_id: Id of the message that the question continues; None for a new root.
    """

    question: str
    flow: str
    settings: Mapping[str, Any]
    message_id: str
    parent_message_id: str | None


def question_keys(asks: Iterable[Ask], earlier: Mapping[str, str] | None = None) -> list[str]:
    """Return the keys of the recordings of questions, in the order in which the questions were asked.

    `earlier` has, for each message that a question may continue, the key of the message's run.
    """
    keys: list[str] = []
    by_message, times = dict(earlier or {}), Counter[tuple[str, ...]]()
    for ask in asks:
        settings, parent = ask.settings, ask.parent_message_id
        after = "root" if parent is None else by_message.get(parent, parent)
        fork = {name: value for name, value in (settings.get("fork") or {}).items() if name != "of"}
        chosen: list[Any] = [settings.get("model"), settings.get("budget")]
        chosen += [fork] if fork else []
        chosen += [settings[WORK_SETTING]] if WORK_SETTING in settings else []
        chosen += [{DEPTH_SETTING: settings[DEPTH_SETTING]}] if DEPTH_SETTING in settings else []
        chosen += [{VARIATION_SETTING: settings[VARIATION_SETTING]}] if VARIATION_SETTING in settings else []
        if (origin := ParentCall.from_settings(settings)) is not None:
            chosen.append({PARENT_CALL_SETTING: origin.place})
        values = ask.flow, ask.question, json.dumps(chosen, sort_keys=True), after
        times[values] += 1
        keys.append(derived_id("ask", *values, times[values]))
        by_message[ask.message_id] = keys[-1]
    return keys


RE_RECORD = (
    'To record new runs only, execute the notebook once with mode="auto" (AF_MODE=auto) and the model at hand; '
    'to record all runs again, with mode="record".'
)
_RE_RECORD_GRAPH = (
    "The run of your own graph cannot continue from its recording with another decision: repeat the recorded decision, "
    'or record again with mode="record".'
)
_COMPARED_CHARS = 4_000
_DIFF_LINES = 24


def miss_of_question(ask: Ask, cassette: Cassette) -> str:
    """Write the message of a miss: a question without a recording, and the nearest recording."""
    problem = f"{ask.question!r:.200} was asked, and {shown_path(cassette.path)} has no such run."
    nearest = max(cassette.heads, key=lambda head: _likeness(ask, head), default=None)
    if nearest is None:
        lines = ["The cassette is empty."]
    elif nearest.question != ask.question:
        lines = [f"The nearest question is {nearest.question!r:.200}."]
    else:
        settings = orjson.loads(cassette.rows(nearest).run["settings_json"])
        lines = [f"The run {nearest.run_id} has the same question, and differs:", *_differing(ask, nearest, settings)]
    return "\n".join([problem, *lines, RE_RECORD])


def miss_of_stale_recording(ask: Ask, run_id: str) -> str:
    """Write the message of a miss: the message before a recorded question was recorded again later."""
    return (
        f"{ask.question!r:.200} was asked. Its recording {run_id} follows an earlier recording of the message before, "
        f"which was recorded again.\n{RE_RECORD}"
    )


def _likeness(ask: Ask, head: Head) -> tuple[float, bool]:
    texts = ask.question[:_COMPARED_CHARS], head.question[:_COMPARED_CHARS]
    return SequenceMatcher(None, *texts).quick_ratio(), head.flow == ask.flow


def _differing(ask: Ask, head: Head, settings: Mapping[str, Any]) -> Iterator[str]:
    pairs: list[tuple[str, Any, Any]] = [("flow", head.flow, ask.flow)]
    pairs += [(name, settings.get(name), ask.settings.get(name)) for name in ("model", "budget", "fork")]
    differing = [pair for pair in pairs if pair[1] != pair[2]]
    for name, before, now in differing:
        yield f"{name}: recorded {before or 'none'}, now {now or 'none'}"
    if not differing:
        yield "the question was asked after another message, or less often than now"


def miss_of_decision(title: str, recorded: Decision | None, now: Decision | str, *, is_graph: bool = False) -> str:
    """Write the message of a miss: a decision that differs from the recorded decision.

    Args:
        title: The request in a line.
        recorded: The recorded decision, or None.
        now: The decision now, or the other action.
        is_graph: Whether the run is of an adapted graph, which cannot continue live in any mode.
    """
    before = "nothing was decided" if recorded is None else _in_words(recorded)
    after = now if isinstance(now, str) else _in_words(now)
    advice = _RE_RECORD_GRAPH if is_graph else RE_RECORD
    return f"{title}: recorded: {before}, now: {after}. Nothing was decided.\n{advice}"


def miss_of_edit(recorded: Row, update_type: str, content: str) -> str:
    """Write the message of a miss: a manual edit that differs from the recorded edit."""
    before, kind = str(recorded["content"]), str(recorded["update_type"])
    lines = [f"The artifact {recorded['artifact_id']!r} was edited, and the recording has another edit here:"]
    lines += [f"{kind} was recorded, now {update_type}"] if kind != update_type else []
    return "\n".join([*lines, *text_difference(before, content), "Nothing was written.", RE_RECORD])


def _in_words(decision: Decision) -> str:
    more = [decision.instruction and f"({decision.instruction!s:.200})"]
    more += [] if decision.params is None else [f"with {dict(decision.params)!r:.200}"]
    return " ".join([decision.choice, *filter(None, more), f"for {decision.scope}"])


def is_same_decision(recorded: Decision, now: Decision) -> bool:
    """Return whether two decisions have the same effect, whoever made the decisions."""
    return _effect(recorded) == _effect(now)


def _effect(decision: Decision) -> tuple[object, ...]:
    params = None if decision.params is None else orjson.dumps(dict(decision.params), option=orjson.OPT_SORT_KEYS)
    return decision.choice, decision.instruction, params, decision.scope


def text_difference(before: str, after: str) -> Iterator[str]:
    """Return the lines in which two texts differ, as many as fit on a screen."""
    lines: Iterable[str] = unified_diff(before.splitlines(), after.splitlines(), "recorded", "now", lineterm="", n=1)
    shown = list(islice(lines, _DIFF_LINES + 1))
    yield from (line[:400] for line in shown[:_DIFF_LINES])
    if len(shown) > _DIFF_LINES:
        yield "..."
