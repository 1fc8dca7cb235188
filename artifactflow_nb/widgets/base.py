"""What a view needs to know of a run: enough to show it, to answer for a person and to stop it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from artifactflow_nb.events import StreamEvent

Listener = Callable[[StreamEvent], None]
"""Is handed the events of a run, in order, on the engine's thread."""


class ViewedRun(Protocol):
    """A run as its views hold it. Every method may be called from any thread and returns at once."""

    @property
    def run_id(self) -> str:
        """The run."""

    @property
    def question(self) -> str:
        """What was asked."""

    def stored_events(self) -> Sequence[StreamEvent]:
        """The events that are stored so far, in order; all but chunks."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener on the engine's loop with all stored events, then with new ones; returns what ends it."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Run the callback on the engine's loop."""

    def decide(self, request_id: str, approved: bool, instruction: str = "") -> None:
        """Answer a request; the answer comes back as an event. A request that is already decided stays so."""

    def cancel(self) -> None:
        """Ask the run to end."""

    def artifact_text(self, artifact_id: str, version: int) -> str:
        """The content of a version."""

    def tool_result(self, tool_call_id: str) -> str:
        """What a tool returned; empty if nothing."""
