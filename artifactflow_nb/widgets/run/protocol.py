"""`ViewedRun`: interface of a run to its views: read it, decide its requests, resume and cancel it."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.core.language import Language
from artifactflow_nb.flows.events import Listener
from artifactflow_nb.sources.evidence import Evidence
from artifactflow_nb.tools.base import Tool


class ViewedRun(Protocol):
    """A run, seen from a view on the engine's loop."""

    @property
    def run_id(self) -> str:
        """Id of the run."""

    @property
    def question(self) -> str:
        """The question."""

    @property
    def store(self) -> Path:
        """File of the store."""

    @property
    def language(self) -> Language:
        """Language of its views."""

    def stored_events(self) -> Sequence[StreamEvent]:
        """Stored events, in order; chunks are not stored."""

    def subrun(self, run_id: str) -> "ViewedRun":
        """Run that carries out one of the tool calls.

        Errors: `NotFound` if it is not in the store.
        """

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener on the engine's loop with all events; return a function that ends the subscription."""

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Decide a request; the run publishes the decision as an event.

        Errors: `Conflict` if it was decided before; that decision remains valid.
        """

    def status(self) -> str:
        """Return the stored status; `interrupted` if the run's process has died."""

    async def resume(self) -> None:
        """Resume an interrupted run in this process.

        Errors: `Conflict` if it is running, has ended or waits for a decision.
        """

    async def cancel(self) -> None:
        """Cancel the run.

        Errors: `Conflict` if it has ended.
        """

    def tool(self, name: str) -> Tool | None:
        """Return the tool registered under this name in the workbench; None if there is none."""

    def artifact_text(self, artifact_id: str, version: int) -> str:
        """Content of one version of an artifact."""

    def tool_result(self, tool_call_id: str) -> str:
        """Stored result of a tool call; empty if there is none."""

    def evidence(self, cited: Collection[str]) -> Evidence:
        """Return the texts that the run has read of the sources with these addresses."""

    def usual_ms(self) -> float | None:
        """Return the time that earlier runs of this kind took, in milliseconds; None without such runs."""

    def source_link(self, address: str) -> str:
        """Web address of a source, or the path of its file relative to the working folder; empty without either."""
