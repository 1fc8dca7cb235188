"""What makes a run the same run when a notebook is executed again: what was asked, after what, how, and which time.

Ids are no part of it, since they are new each time. Where a notebook asks the same twice, the first time and the second
are told apart by counting.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from artifactflow_nb.ambient import derived_id
from artifactflow_nb.origin import SUBRUN, Origin
from artifactflow_nb.projects import WORK

ROOT = "root"
"""What a run comes after that begins a conversation."""


class Asked(Protocol):
    """What was asked: a recorded run has it, and whatever a run is begun with."""

    @property
    def question(self) -> str:
        """The question."""

    @property
    def flow(self) -> str:
        """Which flow answers it."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was begun with.

        What counts: `model`, `budget`, what is otherwise in a `fork`, what is written of a project, for which call.
        """

    @property
    def message_id(self) -> str:
        """Its message."""

    @property
    def parent_message_id(self) -> str | None:
        """The message that it continued; None for a new root."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What was asked, as `Asked` says, and nothing else."""

    question: str
    flow: str
    settings: Mapping[str, Any]
    message_id: str
    parent_message_id: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run stands among others that ask the same.

    Attributes:
        key: What it is found by.
        after: The key of the run whose message it continues; `root` if it begins a conversation.
        nth: Which time it is asked there, from 1.
    """

    key: str
    after: str
    nth: int


def key_at(flow: str, question: str, settings: Mapping[str, Any], after: str, nth: int) -> str:
    """The key of what is asked so, there, for the nth time."""
    forked = {name: value for name, value in (settings.get("fork") or {}).items() if name != "of"}
    work = [settings[WORK]] if WORK in settings else []
    work += [] if (origin := Origin.of_settings(settings)) is None else [{SUBRUN: origin.place}]
    chosen = json.dumps(
        [settings.get("model"), settings.get("budget"), *([forked] if forked else []), *work], sort_keys=True
    )
    return derived_id("ask", flow, question, chosen, after, nth)


def continued(run: Asked) -> str | None:
    """The message that a run comes after: that of the run which began it, or the one that its own continues."""
    origin = Origin.of_settings(run.settings)
    return run.parent_message_id if origin is None else origin.message_id


def places(runs: Iterable[Asked], keys: Mapping[str, str] | None = None) -> list[Place]:
    """The places of runs in the order in which they were asked.

    Args:
        runs: All runs of one execution of a notebook, replayed ones too.
        keys: The keys of earlier runs by their messages, which these may continue.

    Errors: none: a run that continues what is not known comes after that message.
    """
    found: list[Place] = []
    by_message, times = dict(keys or {}), Counter[str]()
    for run in runs:
        parent = continued(run)
        after = ROOT if parent is None else by_message.get(parent, parent)
        first = key_at(run.flow, run.question, run.settings, after, 1)
        times[first] += 1
        key = key_at(run.flow, run.question, run.settings, after, times[first])
        by_message[run.message_id] = key
        found.append(Place(key, after, times[first]))
    return found


def run_key(run: Asked, before: Iterable[Asked] = (), keys: Mapping[str, str] | None = None) -> str:
    """The key of a run that was asked after others; arguments as for `places`."""
    return places([*before, run], keys)[-1].key
