"""Beginning runs: a question is checked and stored as a message with its run; where it is recorded, as it was then."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from artifactflow_nb import __version__
from artifactflow_nb.belongings import values
from artifactflow_nb.budget import Budget
from artifactflow_nb.drive import Rooms
from artifactflow_nb.driven import DrivenRuns
from artifactflow_nb.errors import Conflict, UsageError
from artifactflow_nb.flows.adapted import History, history_of
from artifactflow_nb.flows.compose_texts import references
from artifactflow_nb.flows.state import COMPOSE, RESEARCH
from artifactflow_nb.manifest import Manifest
from artifactflow_nb.origin import SUBRUN, Origin
from artifactflow_nb.projects import WORK
from artifactflow_nb.recordings.change import Change
from artifactflow_nb.recordings.clock import whole_ms
from artifactflow_nb.recordings.graph_steps import GRAPH
from artifactflow_nb.recordings.identity import Ask
from artifactflow_nb.recordings.values import RecordedRun
from artifactflow_nb.skills import FOLDER, SETTING, SKILLS, known_skills, load_shared, named_skills
from artifactflow_nb.store.conversations import Parent, ParentId, resolve_parent
from artifactflow_nb.store.runs import NewRun, StoredRun, is_run


class BegunRuns(DrivenRuns):
    """Begins runs.

    Args:
        rooms: What drivers work with.
        folder: The store's folder, where owners' locks lie.
        manifest_for_run: What a new run is made with, by what is asked.

    Attributes:
        begun: The runs that were begun here, by their ids, in order: what each that is played would be made with now;
            empty for the others, whose rows have it.
    """

    def __init__(self, rooms: Rooms, folder: Path, manifest_for_run: Callable[[Ask], Awaitable[Manifest]]) -> None:
        super().__init__(rooms, folder)
        self.begun: dict[str, Manifest] = {}
        self._manifest_for_run = manifest_for_run
        self._one_by_one = asyncio.Lock()

    @property
    def flows(self) -> tuple[str, ...]:
        """The names of the flows."""
        return tuple(self._rooms.flows)

    def check_flow(self, flow: str) -> None:
        """Raise `UsageError`, with the names that are known, if there is no such flow."""
        if flow not in self._rooms.flows:
            raise UsageError(f"There is no flow {flow!r}; known are: {', '.join(self._rooms.flows)}.")

    async def begin(
        self,
        content: str,
        *,
        conversation_id: str | None = None,
        parent_message_id: ParentId = Parent.ACTIVE,
        message_id: str | None = None,
        thread_id: str | None = None,
        flow: str = RESEARCH,
        budget: Budget | Mapping[str, Any] | None = None,
        model: str | None = None,
        change: Change | None = None,
        work: Mapping[str, Any] | None = None,
        origin: Origin | None = None,
    ) -> StoredRun:
        """Check and store a question as a message with its run; `start` lets it run.

        A change makes it a fork of the run that it names; work says what of a project it writes, if it talks with
        nobody: `{"write": [ids of blocks]}`; origin for which call of another run it works.
        """
        question = content.encode("utf-8", "replace").decode().strip()
        if not question:
            raise UsageError("The question is empty. Write what you want to know.")
        self.check_flow(flow)
        shared: dict[str, str] = {}
        if flow == COMPOSE:
            shared = await self._shared_skills()
            said = question if work is None else ""
            await self._check_project(said, conversation_id, parent_message_id, shared)
        kept = self._rooms.flows[flow]
        limits = None if budget is None else Budget.of(budget)
        choices = await self._rooms.choices_for_run(flow, limits, model)
        if change is not None and GRAPH in choices:
            raise UsageError(
                f"The flow {flow!r} is a graph of your own, which cannot be forked at a step: only it knows what "
                "happens within its nodes. Ask it again."
            )
        if change is not None:
            choices["fork"] = change.as_json()
        if shared:
            choices[SETTING] = shared
        if work is not None:
            choices[WORK] = dict(work)
        if origin is not None:
            choices[SUBRUN] = origin.as_json()
        parent = await self._parent(conversation_id, parent_message_id)
        if GRAPH in choices and self._rooms.deck.mode != "live":
            before = await self._history(conversation_id, parent)
            choices[GRAPH]["input"] = self._rooms.flows.asked(flow, question, before)
        asked = Ask(question, flow, choices, "", parent)
        async with self._one_by_one if self._rooms.deck.cassette is not None else nullcontext():
            stored = await self._begun(asked, conversation_id, parent_message_id, message_id, thread_id)
        self._rooms.flows.keep(stored.run_id, kept)
        return stored

    async def _begun(
        self,
        asked: Ask,
        conversation_id: str | None,
        parent_message_id: ParentId,
        message_id: str | None,
        thread_id: str | None,
    ) -> StoredRun:
        """Store what is asked, from its recording if there is one: no other may be looked for until that is noted."""
        deck = self._rooms.deck
        recording = None if deck.cassette is None else await asyncio.to_thread(deck.find, asked)  # it may be long
        owner = self._rooms.ownership.hold()
        try:
            if recording is None:
                run = await self._new_run(asked, owner, conversation_id, parent_message_id, message_id, thread_id)
                stored = await self._services.runs.begin(run, self._services.ids.new("conv"))
            else:
                stored = await self._begin_again(recording, asked, owner, conversation_id, parent_message_id)
        except BaseException:
            self._rooms.ownership.let_go(owner)
            raise
        self._rooms.deck.begun(replace(asked, message_id=stored.message_id), recording, self._services.clock)
        self.begun.setdefault(stored.run_id, {})
        return stored

    async def _shared_skills(self) -> dict[str, str]:
        """The skills that are shared by all projects now; a run that is only played has those of its recording."""
        if self._rooms.deck.is_strict:
            return {}
        return await asyncio.to_thread(load_shared, self._folder / FOLDER)

    async def _check_project(
        self, question: str, conversation_id: str | None, parent: ParentId, shared: Mapping[str, str]
    ) -> None:
        """Refuse to compose without a project, and a question that names blocks or skills which there are not."""
        if conversation_id is None:
            raise UsageError('The compose flow writes a project. Name it: wb.ask("...", project="name").')
        above = await self._rooms.database.read(lambda db: resolve_parent(db, conversation_id, parent))
        references(await self._services.blocks.tree(conversation_id, above), question)
        own = await self._services.belongings.all(conversation_id, above, SKILLS)
        named_skills(question, known_skills(values(own), shared), strictly=not self._rooms.deck.is_strict)

    async def _parent(self, conversation_id: str | None, parent: ParentId) -> str | None:
        """The message that is continued, as far as it tells one recording from another."""
        if conversation_id is None or self._rooms.deck.mode == "live":
            return None
        return await self._rooms.database.read(lambda db: resolve_parent(db, conversation_id, parent))

    async def _history(self, conversation_id: str | None, parent: str | None) -> History:
        """The conversation up to the message that is continued."""
        if conversation_id is None:
            return []
        return history_of(await self._services.conversations.format_conversation_history(conversation_id, parent))

    async def _new_run(
        self,
        asked: Ask,
        owner: str,
        conversation_id: str | None,
        parent: ParentId,
        message_id: str | None,
        thread_id: str | None,
    ) -> NewRun:
        ids = self._services.ids
        return NewRun(
            run_id=ids.new("run"),
            conversation_id=conversation_id,
            message_id=message_id or ids.new("msg"),
            thread_id=thread_id or ids.new("thd"),
            parent=parent,
            question=asked.question,
            flow=asked.flow,
            owner=owner,
            package_version=__version__,
            started_at=whole_ms(self._services.clock.now()),
            settings={"sources": await self._rooms.sources_for_run(), **asked.settings},
            mode=self._rooms.deck.mode,
            manifest=await self._manifest_for_run(asked),
        )

    async def _begin_again(
        self, recording: RecordedRun, asked: Ask, owner: str, conversation_id: str | None, parent: ParentId
    ) -> StoredRun:
        """Store a question whose run is recorded, with the ids and the time that it had.

        If nothing new can come of it, it has the manifest of its recording too: so the frames are the same everywhere.
        """
        if await self._rooms.database.read(lambda db: is_run(db, recording.run_id)):
            raise Conflict(
                f"The store {self._rooms.database.path} holds the run {recording.run_id} already, and a replay gives "
                "it the same id. Leave out data_dir: a replay then has a store of its own."
            )
        deck = self._rooms.deck
        if not deck.is_strict:  # the run may go another way, and search
            await self._rooms.sources_for_run()
        self._rooms.offer_recorded(recording.manifest)
        manifest = await self._manifest_for_run(asked)
        run = NewRun(
            run_id=recording.run_id,
            conversation_id=conversation_id,
            message_id=recording.message_id,
            thread_id=recording.thread_id,
            parent=parent,
            question=asked.question,
            flow=asked.flow,
            owner=owner,
            package_version=recording.package_version if deck.is_strict else __version__,
            started_at=recording.started_at,
            settings=dict(recording.settings),
            mode=deck.mode,
            manifest=recording.manifest if deck.is_strict else manifest,
        )
        self.begun[run.run_id] = manifest
        return await self._services.runs.begin(run, recording.conversation_id)

    async def flow_of(self, message_id: str) -> str:
        """The flow of the run that answered a message; that of new questions if none did."""
        run_id = (await self._services.conversations.message(message_id)).run_id
        return RESEARCH if run_id is None else (await self._services.runs.get(run_id)).flow

    async def begin_sibling(
        self,
        message_id: str,
        content: str | None = None,
        *,
        budget: Budget | Mapping[str, Any] | None = None,
        model: str | None = None,
        change: Change | None = None,
    ) -> StoredRun:
        """Store a message's question once more, or another in its place, with the same parent and a run of its own.

        What is left out is as it was for the run that answered it: flow, budget and model.
        """
        message = await self._services.conversations.message(message_id)
        given: dict[str, Any] = {"budget": budget, "model": model}
        if message.run_id is not None:
            before = await self._services.runs.get(message.run_id)
            self._rooms.flows.check_is_here(before)
            given = {name: value or before.settings.get(name) for name, value in given.items()}
            given |= {"flow": before.flow, "work": before.settings.get(WORK)}
        return await self.begin(
            message.content if content is None else content,
            conversation_id=message.conversation_id,
            parent_message_id=message.parent_id,
            change=change,
            **given,
        )
