"""Settings of runs, the link from a subrun to the tool call that started it, and the outcome of an answer.

A subrun has its own id, approvals and metrics. The last line of the lead's answer states the outcome::

    The state's GDP was 2.3 trillion dollars.
    <outcome>partly</outcome>

The workbench removes this line from the text, also while the text streams.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, get_args

Depth = Literal["quick", "standard", "deep"]
"""The effort of a run: the number of rounds of its agents, and the thoroughness that its prompts ask for."""

DEPTHS: tuple[Depth, ...] = get_args(Depth)

VARIATION_SETTING = "variation"
"""Run setting with the changes for the run alone: `seed`, `graph_config`, `prompts`; absent without changes."""

DEPTH_SETTING = "depth"
"""Run setting that holds the depth; absent for `standard`."""

Clarify = Literal["auto", "never", "always"]
"""Whether the lead asks the person before research: if the question is ambiguous, never, or always."""

CLARIFIES: tuple[Clarify, ...] = get_args(Clarify)

CLARIFY_SETTING = "clarify"
"""Run setting that holds `auto` or `always`; absent in runs that ask no question."""

SEARCH_SCOPE_SETTING = "search_scope"
"""Run setting with the name of the searched sources, for the description of `web_search`."""

PARENT_CALL_SETTING = "subrun"
"""Run setting that holds the parent call of a subrun."""

REVIEWER_SETTING = "reviewer"
"""Run setting that holds the rules of the model that reviews tool calls; absent in runs without a reviewer."""

GRAPH_SETTING = "graph"
"""Run setting with the fingerprint of the `OwnFlow` graph that the run executes; absent in all other runs."""

WORK_SETTING = "compose"
"""Run setting that holds the work of a run without a conversation, such as the blocks to write; absent in a chat.

The stored name is the name of the first flow with such runs, because stores and recordings contain this name.
"""


@dataclass(frozen=True, slots=True)
class ParentCall:
    """The tool call that started a subrun.

    Attributes:
        message_id: The user message that the parent run answers.
        place: Position of the call in the parent run, e.g. `main/2.1`. Unlike an id, it is stable when a notebook is
            executed again.
    """

    run_id: str
    message_id: str
    tool_call_id: str
    place: str

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self | None:
        """Read the parent call from a run's settings; None for a top-level run or a malformed value."""
        stored = settings.get(PARENT_CALL_SETTING)
        if not isinstance(stored, Mapping):
            return None
        values: dict[str, Any] = {name: stored.get(name) for name in cls.__dataclass_fields__}
        return cls(**values) if all(isinstance(value, str) for value in values.values()) else None

    def as_json(self) -> dict[str, str]:
        """Return the value stored in a run's settings."""
        return asdict(self)


Outcome = Literal["answered", "partly", "not_in_sources"]
"""Whether the question is answered, partly answered, or unanswered because the sources do not say the answer."""

RUN_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

_OPENING = "<outcome>"
_LINE = re.compile(r"\s*`*\s*<outcome>([^<>]{0,40})(?:</outcome>)?\s*`*\s*$")


def split_outcome(text: str) -> tuple[str, Outcome | None]:
    """Split a text into the part for the person and the outcome, which is None if it is missing or unknown."""
    line = _LINE.search(text)
    if line is None:
        return text, None
    word = "_".join(re.findall("[a-z]+", line[1].lower()))
    return text[: line.start()], next((outcome for outcome in RUN_OUTCOMES if outcome == word), None)


class OutcomeFilter:
    """Withholds the outcome from a streamed text, and a tail that may be the beginning of an outcome.

    Attributes:
        is_open: Whether text is withheld. While `is_open` is false, a piece without `<` need not be fed.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._withheld = ""

    def feed(self, piece: str) -> str:
        """Return the text that can be published after a piece."""
        text = self._withheld + piece
        cut = text.find(_OPENING)
        if cut < 0:
            sizes = range(len(_OPENING) - 1, 0, -1)
            cut = len(text) - next((size for size in sizes if text.endswith(_OPENING[:size])), 0)
        self._withheld, self.is_open = text[cut:], cut < len(text)
        return text[:cut]

    def finish(self) -> str:
        """Return the withheld text, unless it is an outcome; called at the end of the reply."""
        withheld, self._withheld = self._withheld, ""
        return split_outcome(withheld)[0]


def graph_differences(recorded: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> list[str]:
    """List the differences between two fingerprints in nodes, edges and tools."""
    if recorded is None or now is None:
        return [] if recorded is now else ["recorded with another kind of flow"]
    differences = []
    for kind in ("nodes", "edges", "tools"):
        if kind in recorded and kind in now:
            before, after = set(map(str, recorded[kind])), set(map(str, now[kind]))
            differences += [f"{kind}: {name} is missing now" for name in sorted(before - after)]
            differences += [f"{kind}: {name} is new" for name in sorted(after - before)]
    return differences
