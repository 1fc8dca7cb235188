"""How the agents of a cassette asked their models, so that a replay needs no settings.

An agent that asked in several ways is taken as it asked most often, runs whose model was chosen aside: which run comes
first says nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.events import MAIN_JOB
from artifactflow_nb.messages import ToolProtocol
from artifactflow_nb.recordings.cassette import Cassette
from artifactflow_nb.recordings.cassette_lines import TurnOutline
from artifactflow_nb.recordings.change import Change
from artifactflow_nb.recordings.graph_steps import GRAPH


@dataclass(frozen=True, slots=True)
class Configured:
    """How an agent asked its model when it was recorded; `is_own` if the model was its own, not that of the run."""

    provider: str
    model: str
    temperature: float | None
    tool_protocol: ToolProtocol
    is_own: bool = False


def configured(cassette: Cassette) -> dict[str, Configured]:
    """How agents asked, by their names; the nodes of an adapted graph are none."""
    votes: dict[str, Counter[tuple[bool, Configured]]] = {}
    for settings, turns in cassette.outlines():
        for agent, vote in () if GRAPH in settings else _votes(settings, turns):
            votes.setdefault(agent, Counter())[vote] += 1
    return {agent: _elected(found) for agent, found in sorted(votes.items())}


def _elected(votes: Mapping[tuple[bool, Configured], int]) -> Configured:
    return max(votes, key=lambda vote: (not vote[0], votes[vote], repr(vote[1])))[1]


def _votes(settings: Mapping[str, Any], turns: Sequence[TurnOutline]) -> Iterator[tuple[str, tuple[bool, Configured]]]:
    """For each turn of a run its agent, whether the run's model was chosen, and how the model was asked."""
    change, chosen = Change.of_settings(settings), settings.get("model")
    other = change and change.model
    lead = next((turn.model for turn in turns if turn.path == MAIN_JOB), None)
    for turn in turns:
        protocol: ToolProtocol = "native" if turn.tool_protocol == "native" else "xml"
        is_own = turn.model not in {chosen or lead, other}
        yield (
            turn.agent,
            (bool(chosen or other), Configured(turn.provider, turn.model, turn.temperature, protocol, is_own)),
        )
