"""What is stored of a run, under the names that a live run and a sealed one have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from artifactflow_nb.artifact import Artifacts
from artifactflow_nb.errors import RunCancelled, RunFailed
from artifactflow_nb.events import ExecutionMetrics
from artifactflow_nb.lists import EventList, RequestList, StepList
from artifactflow_nb.recordings.reading import load_recording
from artifactflow_nb.recordings.steps import steps_of
from artifactflow_nb.recordings.values import RecordedRun
from artifactflow_nb.run_port import RunReader
from artifactflow_nb.store.made import load_manifest
from artifactflow_nb.store.metrics import load_metrics
from artifactflow_nb.store.requests import load_open_requests
from artifactflow_nb.store.runs import CANCELLED, COMPLETED, FAILED, StoredRun
from artifactflow_nb.text.cards import Shown
from artifactflow_nb.text.markdown import portable


class Markdown(str):
    """A text that a notebook shows as Markdown, made harmless."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return portable(self)


class RunRecord(Shown, ABC):
    """The half of a run's handle that reads: what was asked, what came of it, and everything in between.

    Args:
        stored: The run's row.

    Attributes:
        run_id: The run.
        conversation_id: Its conversation.
        message_id: The message that it answers.
        thread_id: Its thread, which a later process resumes it by.
        question: What was asked.
        started_at: When it began.
        settings: What it was begun with: its budget, its model, what was searched.
    """

    def __init__(self, stored: StoredRun) -> None:
        self.run_id = stored.run_id
        self.conversation_id = stored.conversation_id
        self.message_id = stored.message_id
        self.thread_id = stored.thread_id
        self.question = stored.question
        self.started_at = stored.started_at
        self.settings: Mapping[str, Any] = MappingProxyType(stored.settings)

    @property
    @abstractmethod
    def port(self) -> RunReader:
        """What views are made from."""

    @property
    @abstractmethod
    def artifacts(self) -> Artifacts:
        """The newest version of each artifact that this run's branch sees, by id."""

    @abstractmethod
    def _stored(self) -> StoredRun:
        """The run's row as it is now."""

    @property
    def status(self) -> str:
        """`running`, `waiting`, `completed`, `failed`, `cancelled`, or `interrupted`: its process is gone."""
        return self._stored().status

    @property
    def response(self) -> Markdown | None:
        """The answer, in Markdown; None while there is none. `RunFailed` or `RunCancelled` if there will be none."""
        stored = self._stored()
        if stored.status == FAILED:
            raise RunFailed(f"{stored.error_message} (run {self.run_id})")
        if stored.status == CANCELLED:
            raise RunCancelled(f"The run {self.run_id} was cancelled.", partial=stored.response or "")
        return Markdown(stored.response) if stored.status == COMPLETED else None

    @property
    def error(self) -> str | None:
        """Why the run failed; None if it did not."""
        return self._stored().error_message

    @property
    def completed_at(self) -> datetime | None:
        """When it ended; None while it has not."""
        return self._stored().completed_at

    @property
    def events(self) -> EventList:
        """The stored events, in order: all but chunks of text."""
        return EventList(self.port.stored_events())

    @property
    def pending(self) -> RequestList:
        """The requests that wait for a decision, the oldest first."""
        return RequestList(self.port.read(lambda db: load_open_requests(db, self.run_id)))

    @property
    def metrics(self) -> ExecutionMetrics:
        """What the run cost so far."""
        until = self.completed_at or datetime.now(UTC)
        return self.port.read(lambda db: load_metrics(db, self.run_id, until))

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What the run was made with: versions, agents with their models, hashes of prompts, tools and sources.

        Empty for a run of a release that did not keep it.
        """
        return self.port.read(lambda db: load_manifest(db, self.run_id))

    @property
    def steps(self) -> StepList:
        """The steps of the run by their numbers, for `fork`: model turns, tool calls and decisions."""
        return StepList(steps_of(self.recording()))

    def recording(self) -> RecordedRun:
        """Everything that came to the run from outside so far: prompts, replies, results, decisions and times."""
        return self.port.read(lambda db: load_recording(db, self.run_id))
