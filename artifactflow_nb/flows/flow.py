"""What drives a run asks of its flow: to go on as far as it can, again and again until there is an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.recordings.values import Failure


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a flow has come.

    Attributes:
        gates: Where it waits: for each place the ids of the requests that all have to be decided there. Empty when it
            is done.
        response: The answer; empty while it waits.
        failure: How the run ended when it was recorded, if it failed and is played as a whole.
    """

    gates: Sequence[Sequence[str]] = ()
    response: str = ""
    failure: Failure | None = None


class Flow(Protocol):
    """In what order a run does what it does. One object serves all runs of an engine."""

    async def go_on(self, ctx: RunContext, *, is_begun: bool) -> Standing:
        """Go on with a run until it is done or waits for decisions, which are read from the store.

        Args:
            ctx: The run.
            is_begun: Whether the engine's checkpoints know how far it has come; otherwise it begins, and repeats
                nothing that the store has.

        Errors: whatever ends the run.
        """
