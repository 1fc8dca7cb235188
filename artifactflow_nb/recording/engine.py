"""An engine whose runs are recorded into a cassette, or played from one."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from artifactflow_nb.agents.base import AgentLike, BaseAgent
from artifactflow_nb.agents.reviewer import Reviewer
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.factories import api_keys_of
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.base import Model
from artifactflow_nb.recording.controller import RecordingController
from artifactflow_nb.recording.manual_edits import RecordedEdits
from artifactflow_nb.recording.modes import CassetteSession
from artifactflow_nb.recording.recorded_model import ReplayModel
from artifactflow_nb.recording.rows import RunRows
from artifactflow_nb.recording.verify import VerificationReport, verify
from artifactflow_nb.sources.values import IndexingResult, ProgressCallback


def make_engine(settings: Settings, **options: Any) -> "RecordingEngine":
    """Make the engine that settings describe; `CassetteError` if their cassette cannot be used."""
    approvals = options.get("approvals")
    reviewing = approvals.model if isinstance(approvals, Reviewer) else None
    models = [options.get("model"), *(options.get("agent_models") or {}).values(), reviewing]
    return RecordingEngine(settings, CassetteSession.of(settings, api_keys_of(models)), **options)


class RecordingThread(EngineThread):
    """The thread of an engine with a cassette."""

    engine: "RecordingEngine"


class RecordingEngine(Engine):
    """An engine with a cassette. A replay needs no key, no network and no MCP servers.

    Args:
        settings: As for `Engine`.
        session: The cassette.
        model: As for `Engine`; a replay asks none.
        agent_models: As for `Engine`.
        options: Further arguments of `Engine`.
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
            if isinstance(options.get("approvals"), Reviewer):  # its decisions are recorded
                options["approvals"] = replace(options["approvals"], model=None)
        super().__init__(settings.model_copy(update=changes), model=model, agent_models=agent_models, **options)
        self.session = session
        self.mode = session.mode
        self.own_agents: list[BaseAgent] = []
        self._prompt_folder: Path | None = options.get("prompts")
        self.artifacts.manual_edits = RecordedEdits(session, self.database)

    def _new_controller(self) -> RecordingController:
        return RecordingController(
            self._engine_services(),
            self.session,
            default_budget=self.settings.budget,
            verify=self.verify if self.session.mode == "verify" else None,
        )

    def verify(self, rows: RunRows) -> VerificationReport:
        """Execute a recorded run again with the tools, agents and prompts of this engine; call it on another thread."""
        built_in = {entry.name for entry in self.tools if self.tools.is_built_in(entry)}
        offers = [(name, entry) for name, agent in self.agents.items() for entry in agent.tools]
        own = [(name, entry) for name, entry in offers if entry.name not in built_in]
        return verify(rows, offers=own, agents=self.own_agents, prompts=self._prompt_folder)

    def register_agent(self, agent: AgentLike) -> BaseAgent:
        """Add an agent that the lead can delegate to, and return it; only the lead delegates."""
        own = super().register_agent(agent)
        self.own_agents.append(own)
        return own

    async def add_sources(self, path: str | Path, progress: ProgressCallback | None = None) -> IndexingResult:
        """Index a folder or a file; a replay needs none, so one that is missing does not stop it."""
        try:
            return await super().add_sources(path, progress)
        except UsageError:
            if not self.session.is_strict or await asyncio.to_thread(lambda: Path(path).expanduser().exists()):
                raise
            return IndexingResult(str(path), ())

    async def aclose(self) -> None:
        """Close everything, and let another process record."""
        try:
            await super().aclose()
        finally:
            self.session.close()
