"""An engine whose runs are recorded into a cassette or played from a cassette."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from artifactflow_nb.agents.base import AgentLike, BaseAgent
from artifactflow_nb.agents.reviewer import Reviewer
from artifactflow_nb.core.local_files import absolute_path
from artifactflow_nb.core.redaction.redactor import is_same_text
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.factories import api_keys_of, known_values
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import CassetteMiss, UsageError
from artifactflow_nb.flows.known_secrets import SecretLookup
from artifactflow_nb.models.base import Model
from artifactflow_nb.recording.controller import RecordingController
from artifactflow_nb.recording.identity import miss_of_edit
from artifactflow_nb.recording.modes import CassetteSession
from artifactflow_nb.recording.recorded_model import ReplayModel
from artifactflow_nb.recording.rows import ENDED, Row, RunRows
from artifactflow_nb.recording.verify import VerificationReport, verify
from artifactflow_nb.sources.values import IndexingResult, ProgressCallback
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.schema import from_microseconds

_NEWEST_RUN = "SELECT run_id, status FROM runs WHERE message_id = ? AND status <> 'running' ORDER BY rowid DESC LIMIT 1"


class RecordedEdits:
    """The `ManualEdits` of a store with a cassette."""

    def __init__(self, session: CassetteSession, database: Database) -> None:
        self._session = session
        self._database = database
        self._unused: dict[tuple[str, str | None], list[Row]] = {}
        self._changed: set[str | None] = set()

    def recorded_time(
        self, by: Authorship, artifact_id: str, update_type: str, contents: Sequence[str]
    ) -> datetime | None:
        """Return the recorded time of an edit, or None for a new edit. Each recorded edit is used once.

        Errors: `CassetteMiss` if the recording has another edit of the artifact at this point. In the mode `auto`, the
        following runs are live instead.
        """
        position = by.conversation_id, by.message_id
        if position not in self._unused:
            self._unused[position] = self._session.edits(*position)
        unused = [row for row in self._unused[position] if row["artifact_id"] == artifact_id]
        texts = {*contents, *map(self._session.redacted_text, contents)}
        for row in unused:
            recorded = row["content"]  # this machine, or the machine of the recording, may not know a secret
            if row["update_type"] == update_type and any(
                is_same_text(recorded, text) or is_same_text(text, recorded) for text in texts
            ):
                self._unused[position].remove(row)
                return from_microseconds(row["created_at"])
        if unused and self._session.is_strict:
            text = self._session.redacted_text(contents[0])
            raise CassetteMiss(miss_of_edit(unused[0], update_type, text))
        if self._session.mode == "auto":
            self._changed.add(by.message_id)
            self._session.continue_live_after(by.message_id or by.conversation_id)
        return None

    async def record(self, by: Authorship) -> None:
        """Record a run again after an edit on its message; `CassetteError` after a failure, while the edit remains."""
        if self._session.writer is None or by.message_id is None:
            return
        row = await self._database.read(lambda db: db.execute(_NEWEST_RUN, (by.message_id,)).fetchone())
        if row is None:
            return
        is_changed = by.message_id in self._changed and row["status"] in ENDED  # other runs are still played
        if is_changed or self._session.is_recorded_here(row["run_id"]):
            await self._session.save(self._database, row["run_id"])


def make_engine(settings: Settings, **options: Any) -> "RecordingEngine":
    """Create the engine for these settings; `CassetteError` if the cassette cannot be used."""
    approvals = options.get("approvals")
    reviewing = approvals.model if isinstance(approvals, Reviewer) else None
    models = [options.get("model"), *(options.get("agent_models") or {}).values(), reviewing]
    secrets = SecretLookup(partial(known_values, settings, os.environ, api_keys_of(models)))
    return RecordingEngine(settings, CassetteSession(settings.cassette_mode, settings.cassette, secrets), **options)


class RecordingThread(EngineThread):
    """The thread of an engine with a cassette."""

    engine: "RecordingEngine"


class RecordingEngine(Engine):
    """An engine with a cassette. A replay needs no key, no network and no MCP servers.

    `Engine` describes the arguments; a replay calls no model.
    """

    controller: RecordingController

    def __init__(
        self,
        settings: Settings,
        session: CassetteSession,
        *,
        model: Model | None = None,
        agent_models: Mapping[str, str | Model] | None = None,
        **options: Any,
    ) -> None:
        changes: dict[str, Any] = {"record": None, "replay": None, "mode": None}
        if session.is_strict:
            model, agent_models = ReplayModel(session.models(), settings.model), None
            changes["mcp"] = {}
            if isinstance(options.get("approvals"), Reviewer):  # the decisions of the reviewer are recorded
                options["approvals"] = replace(options["approvals"], model=None)
        super().__init__(settings.model_copy(update=changes), model=model, agent_models=agent_models, **options)
        self.session = session
        self.mode = session.mode
        self.own_agents: list[BaseAgent] = []
        self._prompt_folder: Path | None = options.get("prompts")
        self.artifacts.manual_edits = RecordedEdits(session, self.database)

    def _new_controller(self) -> RecordingController:
        return RecordingController(
            self,
            self.session,
            default_budget=self.settings.budget,
            verify=self.verify if self.session.mode == "verify" else None,
        )

    def verify(self, rows: RunRows) -> VerificationReport:
        """Execute a recorded run again with this engine's tools, agents and prompts; not for the engine's thread."""
        built_in = {entry.name for entry in self.tools if self.tools.is_built_in(entry)}
        offers = [(name, entry) for name, agent in self.agents.items() for entry in agent.tools]
        own = [(name, entry) for name, entry in offers if entry.name not in built_in]
        return verify(
            rows,
            offers=own,
            agents=self.own_agents,
            flows=self.flows.own_specs,
            plugins=self.own_plugins,
            prompts=self._prompt_folder,
        )

    def register_agent(self, agent: AgentLike) -> BaseAgent:
        """Add and return an agent to which the lead can delegate; the agent cannot delegate."""
        own = super().register_agent(agent)
        self.own_agents.append(own)
        return own

    async def add_sources(self, path: str | Path, progress: ProgressCallback | None = None) -> IndexingResult:
        """Index a folder or a file; a replay needs no sources and continues without a missing folder or file."""
        try:
            return await super().add_sources(path, progress)
        except UsageError:
            if not self.session.is_strict or await asyncio.to_thread(lambda: absolute_path(path).exists()):
                raise
            return IndexingResult(str(path), ())

    async def aclose(self) -> None:
        """Close the engine and release the cassette, so that another process can record."""
        try:
            await super().aclose()
        finally:
            self.session.close()
