"""What a view needs to know of a run: enough to show it, to answer for a person and to stop it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from artifactflow_nb.approvals import Decision
from artifactflow_nb.events import StreamEvent
from artifactflow_nb.tools.base import Tool

Listener = Callable[[StreamEvent], None]
"""Is handed the events of a run, in order, on the engine's thread."""


class ViewedRun(Protocol):
    """A run as its views hold it, on the engine's loop."""

    @property
    def run_id(self) -> str:
        """The run."""

    @property
    def question(self) -> str:
        """What was asked."""

    def stored_events(self) -> Sequence[StreamEvent]:
        """The events that are stored so far, in order; all but chunks."""

    def subrun(self, run_id: str) -> "ViewedRun":
        """A run that this one began; `NotFound` if it is not in the store."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener on the engine's loop with all stored events, then with new ones; returns what ends it."""

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Answer a request; the answer comes back as an event. `Conflict` if it was decided, which stays so."""

    def status(self) -> str:
        """Its status in the store now; `interrupted` if its process is gone."""

    async def go_on(self) -> None:
        """Go on with it here if its process is gone; `Conflict` if it runs, has ended or waits for a decision."""

    async def cancel(self) -> None:
        """End the run; `Conflict` if it has ended."""

    def tool(self, name: str) -> Tool | None:
        """The tool of this name as the workbench has it now; None if it has none."""

    def artifact_text(self, artifact_id: str, version: int) -> str:
        """The content of a version."""

    def tool_result(self, tool_call_id: str) -> str:
        """What a tool returned; empty if nothing."""
