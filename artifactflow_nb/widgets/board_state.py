"""What the board of a project shows, as the store has it, and how a change by hand gets there.

It follows the store, and the run that is at work: what that makes appears when the call that made it ends.
"""

import asyncio
from dataclasses import replace

from artifactflow_nb.approvals import ApprovalRequest
from artifactflow_nb.block_edits import BlockEdit
from artifactflow_nb.blocks import Block
from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.projects import WORK
from artifactflow_nb.run_port import RunPort
from artifactflow_nb.store.artifact_versions import Artifact, list_seen
from artifactflow_nb.store.artifacts import USER, Authorship
from artifactflow_nb.store.block_jobs import UNENDED
from artifactflow_nb.store.runs import INTERRUPTED
from artifactflow_nb.widgets import board_nodes
from artifactflow_nb.widgets.artifact_panel import ArtifactPanel
from artifactflow_nb.widgets.artifact_texts import ArtifactTexts
from artifactflow_nb.widgets.board_nodes import Board, BoardRun
from artifactflow_nb.widgets.tree import Node
from artifactflow_nb.widgets.view import Act
from artifactflow_nb.widgets.watched_view import WatchedView


class BoardState(WatchedView):
    """Loads a project and changes it.

    Args:
        thread: The engine's thread.
        conversation_id: The conversation of the project.
        dated: Say when versions were written.
    """

    def __init__(self, thread: EngineThread, conversation_id: str, *, dated: bool = True) -> None:
        super().__init__()
        self._thread = thread
        self._engine = thread.engine
        self._conversation_id = conversation_id
        self._dated = dated
        self._message_id: str | None = None
        self._board: Board | None = None
        self._present: list[Artifact] = []
        self._texts = ArtifactTexts()
        self._panel: ArtifactPanel | None = None
        self._form: Node | None = None
        self._asking = ""  # what was pressed and waits for a second word
        self._said = ""
        self._loading = asyncio.Lock()

    def close(self) -> None:
        """Stop following."""
        super().close()
        self._shut()

    # --- what is loaded --------------------------------------------------------------------------------------------

    async def _state(self) -> object:
        key = self._conversation_id
        run = await self._run_of(await self._last_message())
        asked = tuple(request.id for request in await self._asked(run))
        return await self._engine.conversations.state(key), await self._engine.block_jobs.at_work(key), asked, run

    async def _asked(self, run: BoardRun | None) -> tuple[ApprovalRequest, ...]:
        """What the run asks of the person."""
        return () if run is None else tuple(await self._engine.requests.open_requests(run.run_id))

    async def _last_message(self) -> str | None:
        try:
            return (await self._engine.conversations.get(self._conversation_id)).active_message_id
        except NotFound:
            return None

    async def _load(self) -> None:
        async with self._loading:
            try:
                await self._load_project()
            except NotFound:  # somebody deleted it
                self._board, self._present = None, []
            if self._board is None or self._board.opened not in self._board.tree:
                self._shut()
            await self._texts.prepare(self._present)

    async def _load_project(self) -> None:
        key = self._conversation_id
        self._message_id = last = (await self._engine.conversations.get(key)).active_message_id
        run = await self._run_of(last)
        await self._run_news.hear(self._engine.controller, run.run_id if run else None)
        head = await self._engine.blocks.head(key, last)
        tree = await self._engine.blocks.tree(key, last)
        work = await self._engine.block_jobs.at_work(key)
        seen = await self._engine.database.read(lambda db: list_seen(db, key, last))
        texts = {block.block_id for block in tree if not block.is_group}
        self._present = [artifact for artifact in seen if artifact.artifact_id in texts]
        self._board = Board(head, tree, work, run, await self._asked(run), self._board.opened if self._board else "")

    async def _run_of(self, message_id: str | None) -> BoardRun | None:
        """The run of a message that has not ended, with how many of the blocks that it writes it is done with."""
        message = None if message_id is None else await self._engine.conversations.message(message_id)
        if message is None or message.run_id is None or message.status not in UNENDED:
            return None
        stored = await self._engine.runs.get(message.run_id)
        status = await asyncio.to_thread(RunPort(self._thread, stored).status)
        if status not in {*UNENDED, INTERRUPTED}:
            return None
        wanted = stored.settings.get(WORK, {}).get("write", ())
        jobs = set((await self._engine.block_jobs.of_run(stored.run_id)).values())
        at_work = await self._engine.block_jobs.at_work(self._conversation_id)
        return BoardRun(stored.run_id, status, len(jobs.intersection(wanted) - set(at_work)), len(wanted))

    async def _follow(self) -> None:
        before = {} if self._board is None else {block.block_id: block.version for block in self._board.tree}
        asked = set() if self._board is None else {request.id for request in self._board.asked}
        await self._load()
        for block in () if self._board is None else self._board.tree:
            if before.get(block.block_id) != block.version:
                said = [said for kind, said in board_nodes.states(self._shown, block) if kind != "work"]
                self._said = f"{block.name}: {', '.join(said)}, by {block.created_by}."
        for request in () if self._board is None else self._board.asked:
            if request.id not in asked:
                self._said = f"A decision is needed: {request.title or request.tool}."
        self.screen.refresh()
        self.screen.keep()

    @property
    def _shown(self) -> Board:
        if self._board is None:
            raise NotFound("This project is not there any more.")
        return self._board

    def announcement(self) -> str:
        """What was changed or asked last."""
        return self._said

    # --- the block that is open ------------------------------------------------------------------------------------

    def _open(self, block_id: str) -> None:
        self._board = replace(self._shown, opened=block_id)

    def _shut(self) -> None:
        if self._panel is not None:
            self._panel.close()
        self._panel = None
        if self._board is not None and self._board.opened:
            self._leave()
            self._open("")

    def _leave(self) -> None:
        """Close the form, and ask no more what was asked."""
        self._form, self._asking = None, ""

    def _block(self, act: Act) -> Block:
        block = self._shown.tree.get(str(act.args.get("block")))
        if block is None:
            raise UsageError("This block is not there any more.")
        return block

    # --- what is changed -------------------------------------------------------------------------------------------

    async def _change(self, edit: BlockEdit, why: str) -> list[Artifact]:
        """Make an edit by hand; the versions that it wrote."""
        try:
            return await self._engine.blocks.change(self._by(why), edit)
        finally:
            await self._load()
            self.screen.keep()

    def _by(self, why: str) -> Authorship:
        return Authorship(self._conversation_id, self._message_id, USER, reason=why)
