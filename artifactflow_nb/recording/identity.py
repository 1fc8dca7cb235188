"""The identity of a question in a notebook: its text, the message before it, its settings, and its count.

Ids do not belong to it, because they are new in each execution. Equal questions at the same place are counted.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.core.clock_ids import derived_id
from artifactflow_nb.core.runs import DEPTH_SETTING, PARENT_CALL_SETTING, WORK_SETTING, ParentCall


@dataclass(frozen=True, slots=True)
class Ask:
    """A question with the values that distinguish it from others.

    Attributes:
        question: The text.
        flow: The flow that answers it.
        settings: The run's settings; `model`, `budget`, `depth`, `fork` and the project work belong to the identity.
        message_id: Its message; empty while it has none.
        parent_message_id: The message that it continues; None for a new root.
    """

    question: str
    flow: str
    settings: Mapping[str, Any]
    message_id: str
    parent_message_id: str | None


def question_keys(asks: Iterable[Ask], earlier: Mapping[str, str] | None = None) -> list[str]:
    """The keys of the recordings of questions, in the order in which the questions were asked.

    Args:
        asks: All questions of one execution.
        earlier: The keys of earlier runs by their messages, which the questions may continue.
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
        if (origin := ParentCall.from_settings(settings)) is not None:
            chosen.append({PARENT_CALL_SETTING: origin.place})
        values = ask.flow, ask.question, json.dumps(chosen, sort_keys=True), after
        times[values] += 1
        keys.append(derived_id("ask", *values, times[values]))
        by_message[ask.message_id] = keys[-1]
    return keys
