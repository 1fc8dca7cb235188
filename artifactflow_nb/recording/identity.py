"""The identity of a question in a notebook: its text, the message before it, its settings, and its count.

Ids do not belong to it, because they are new in each execution. Equal questions at the same place are counted.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.core.clock_ids import derived_id
from artifactflow_nb.core.runs import PARENT_CALL_SETTING, WORK_SETTING, ParentCall

ROOT = "root"
"""The place of a run that starts a conversation."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question with the values that distinguish it from others.

    Attributes:
        question: The text.
        flow: The flow that answers it.
        settings: The run's settings; `model`, `budget`, `fork` and the project work belong to the identity.
        message_id: Its message; empty while it has none.
        parent_message_id: The message that it continues; None for a new root.
    """

    question: str
    flow: str
    settings: Mapping[str, Any]
    message_id: str
    parent_message_id: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a question in an execution of a notebook.

    Attributes:
        key: The key of its recording.
        after: The key of the run whose message it continues; `root` if it starts a conversation.
        nth: Its number among equal questions there, from 1.
    """

    key: str
    after: str
    nth: int


def places(asks: Iterable[Ask], keys: Mapping[str, str] | None = None) -> list[Place]:
    """The places of questions in the order in which they were asked.

    Args:
        asks: All questions of one execution.
        keys: The keys of earlier runs by their messages, which the questions may continue.
    """
    found: list[Place] = []
    by_message, times = dict(keys or {}), Counter[str]()
    for ask in asks:
        after = ROOT if ask.parent_message_id is None else by_message.get(ask.parent_message_id, ask.parent_message_id)
        first = _key(ask, after, 1)
        times[first] += 1
        by_message[ask.message_id] = key = _key(ask, after, times[first])
        found.append(Place(key, after, times[first]))
    return found


def _key(ask: Ask, after: str, nth: int) -> str:
    settings = ask.settings
    fork = {name: value for name, value in (settings.get("fork") or {}).items() if name != "of"}
    chosen: list[Any] = [settings.get("model"), settings.get("budget")]
    chosen += [fork] if fork else []
    chosen += [settings[WORK_SETTING]] if WORK_SETTING in settings else []
    chosen += [] if (origin := ParentCall.from_settings(settings)) is None else [{PARENT_CALL_SETTING: origin.place}]
    return derived_id("ask", ask.flow, ask.question, json.dumps(chosen, sort_keys=True), after, nth)
