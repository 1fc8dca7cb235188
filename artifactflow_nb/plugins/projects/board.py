"""The board of a project: phases as columns, blocks as cards, and the open block with its text and versions.

::

    heading, buttons to write blocks and to advance to the next phase
    approval requests of the run
    columns: cards, moved with the mouse or with Alt and the arrow keys
    the form for a new block; or the open block with its settings, text and versions (an artifact panel)

The board follows the store and the unfinished run: changes by runs and by other people appear in it. Versions of a run
appear when the tool call that wrote them ends. Actions are the same edits that code makes with the project's handle.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from artifactflow_nb.core.approvals import ApprovalRequest
from artifactflow_nb.core.language import EnglishText, agent_label, translate, translate_list
from artifactflow_nb.core.runs import WORK_SETTING
from artifactflow_nb.core.text.format import translate_count
from artifactflow_nb.core.text.markdown import escape
from artifactflow_nb.engine.run_client import RunClient, offered_tool
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import Conflict, NotFound, UsageError
from artifactflow_nb.plugins.projects import board_nodes
from artifactflow_nb.plugins.projects import edits as block_edits
from artifactflow_nb.plugins.projects.board_edits import (
    add_form,
    drop_block,
    position_text,
    read_new,
    read_settings,
    saved_board,
    settings_form,
    step_block,
)
from artifactflow_nb.plugins.projects.board_nodes import CARD_PREFIX, NEW_PREFIX, Board, BoardRun
from artifactflow_nb.plugins.projects.document import project_document
from artifactflow_nb.plugins.projects.edits import BlockEdit, BlockPosition, move_block
from artifactflow_nb.plugins.projects.project import COMPOSE
from artifactflow_nb.plugins.projects.schedule import writing_request
from artifactflow_nb.plugins.projects.store import UNFINISHED_STATUSES, BlockJobStore, ProjectStore
from artifactflow_nb.plugins.projects.tree import Block, BlockTree
from artifactflow_nb.store.artifact_versions import Artifact, list_visible
from artifactflow_nb.store.artifacts import USER, Authorship
from artifactflow_nb.store.runs import ABANDONED
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.widgets.artifacts.nodes import ArtifactTexts
from artifactflow_nb.widgets.artifacts.view import ArtifactPanel
from artifactflow_nb.widgets.page.nodes import Node, prefixed
from artifactflow_nb.widgets.page.view import PageAction
from artifactflow_nb.widgets.run.approval_card import approval_box, approval_card, read_decision
from artifactflow_nb.widgets.run.cited_page import cited_text, stored_citations
from artifactflow_nb.widgets.run.follower import RunFollower
from artifactflow_nb.widgets.run.labels import request_sentence
from artifactflow_nb.widgets.run.parts import TranscriptRequest
from artifactflow_nb.widgets.run.polled_view import PolledView
from artifactflow_nb.widgets.run.transcript import RunTranscript


class BoardView(PolledView):
    """Shows a project, and lets the reader edit it and start runs that write blocks.

    An action that closes its form sets the announcement instead of returning a message: messages appear in the form.

    Args:
        conversation_id: The conversation of the project.
        with_dates: Show in the saved output when versions were written.
    """

    label: EnglishText = "Project"
    css = "af-board"

    def __init__(self, thread: EngineThread, conversation_id: str, *, with_dates: bool = True) -> None:
        super().__init__(thread.engine)
        self._thread = thread
        self._conversation_id = conversation_id
        self._with_dates = with_dates
        self._message_id: str | None = None  # the last one of the active branch
        self._board: Board | None = None  # None once the project was deleted
        self._versions: list[Artifact] = []
        self._rendered_texts = ArtifactTexts(partial(stored_citations, self._engine.database.path))
        self._panel: ArtifactPanel | None = None  # of the open block
        self._form: Node | None = None
        self._confirming = ""  # the action that waits for a confirmation: delete, refresh or advance
        self._announcement = ""
        self._load_lock = asyncio.Lock()
        self._followed_run = ""
        self._transcript = RunTranscript()
        self._follower: RunFollower | None = None  # of the unfinished run
        self._cited_html: Callable[[str], str] = escape  # of that run
        self._is_closed = False

    def close(self) -> None:
        """Stop following the store and the run."""
        super().close()
        self._is_closed = True
        if self._follower is not None:
            self._follower.close()
        self._close_block()

    # --- loading ---------------------------------------------------------------------------------------------------

    async def _change_token(self) -> object:
        """Return a small value that differs after every change of the project."""
        try:
            last, run, requests, in_progress = await self._read_progress()
        except NotFound:
            return None
        request_ids = tuple(request.id for request in requests)
        return await self._engine.conversations.change_token(self._conversation_id), last, in_progress, request_ids, run

    async def _read_progress(self) -> tuple[str | None, BoardRun | None, tuple[ApprovalRequest, ...], dict[str, str]]:
        """Return the last message, the unfinished run with its open requests, and the blocks in progress."""
        last = (await self._engine.conversations.get(self._conversation_id)).active_message_id
        in_progress = await self._engine.service(BlockJobStore).blocks_in_progress(self._conversation_id)
        run = await self._unfinished_run(last, in_progress)
        requests = () if run is None else tuple(await self._engine.approvals.open_requests(run.run_id))
        return last, run, requests, in_progress

    async def load(self) -> None:
        """Load the project from the store."""
        async with self._load_lock:  # an older load must not finish last
            try:
                last, run, requests, in_progress = await self._read_progress()
                key, self._message_id = self._conversation_id, last
                await self._run_listener.listen_to(self._engine.controller, run.run_id if run else None)
                await self.follow_run(run.run_id if run else "")
                info, tree = await self._engine.service(ProjectStore).project(key, last)
                visible = await self._engine.database.read(lambda db: list_visible(db, key, last))
                text_ids = {block.block_id for block in tree if not block.is_group}
                self._versions = [version for version in visible if version.artifact_id in text_ids]
                open_id = self._board.open_block_id if self._board else ""
                self._board = Board(info, tree, in_progress, run, requests, open_id)
            except NotFound:  # the project was deleted concurrently
                self._board, self._versions = None, []
            if self._board is None or self._board.open_block_id not in self._board.tree:
                self._close_block()
            await self._rendered_texts.prepare(self._versions)

    async def follow_run(self, run_id: str) -> None:
        """Follow this run instead of the previous run, to show the progress of its research; empty for no run."""
        if run_id == self._followed_run:
            return
        if self._follower is not None:
            self._follower.close()
        self._followed_run, self._transcript, self._follower = run_id, RunTranscript(), None
        if run_id:
            client = RunClient(self._thread, await self._engine.runs.get(run_id))
            self._cited_html = lru_cache(64)(partial(cited_text, client))
            self._follower = RunFollower(client, self._transcript, self.screen.refresh, lambda: None)
            await self._follower.start()
            if self._is_closed:  # while the events were read
                self._follower.close()

    async def _unfinished_run(self, message_id: str | None, in_progress: Mapping[str, str]) -> BoardRun | None:
        """Return the unfinished run of a message with its progress in blocks, or None."""
        message = None if message_id is None else await self._engine.conversations.message(message_id)
        if message is None or message.run_id is None or message.status not in UNFINISHED_STATUSES:
            return None
        stored = await self._engine.runs.get(message.run_id)
        # The client runs in a thread, because it is synchronous and checks the lock of the run's process.
        status = await asyncio.to_thread(RunClient(self._thread, stored).status)
        if status not in {*UNFINISHED_STATUSES, ABANDONED}:
            return None
        requested = stored.settings.get(WORK_SETTING, {}).get("write", ())
        started = set((await self._engine.service(BlockJobStore).blocks_by_job(stored.run_id)).values())
        n_done = len(started.intersection(requested) - set(in_progress))
        return BoardRun(stored.run_id, status, n_done, len(requested))

    async def _follow(self) -> None:
        """Load the project and announce its changes."""
        versions = {} if self._board is None else {block.block_id: block.version for block in self._board.tree}
        request_ids = set() if self._board is None else {request.id for request in self._board.requests}
        await self.load()
        for block in () if self._board is None else self._board.tree:
            if versions.get(block.block_id) != block.version:
                states = board_nodes.block_states(self._loaded_board, block)
                state_list = translate_list(text for kind, text in states if kind != "work")
                author = agent_label(block.created_by)
                self._announcement = translate(
                    "{name}: {states}, by {author}.", name=block.name, states=state_list, author=author
                )
        for request in () if self._board is None else self._board.requests:
            if request.id not in request_ids:
                title = request_sentence(TranscriptRequest.from_stored(request))
                self._announcement = translate("A decision is needed: {title}.", title=title)
        self.screen.refresh()
        self.screen.save_soon()

    def announcement(self) -> str:
        """Announce the latest change or request."""
        return self._announcement

    @property
    def _loaded_board(self) -> Board:
        """The board; `NotFound` if the project was deleted."""
        if self._board is None:
            raise NotFound(translate("This project no longer exists."))
        return self._board

    # --- the open block --------------------------------------------------------------------------------------------

    def _open_block(self, block_id: str) -> None:
        """Mark a block as open."""
        self._board = replace(self._loaded_board, open_block_id=block_id)

    def _close_block(self) -> None:
        """Close the open block, its panel and its form."""
        if self._panel is not None:
            self._panel.close()
        self._panel = None
        if self._board is not None and self._board.open_block_id:
            self._close_form()
            self._open_block("")

    def _close_form(self) -> None:
        """Close the form or the confirmation."""
        self._form, self._confirming = None, ""

    def _block(self, act: PageAction) -> Block:
        """Return the block of an action; `UsageError` if the block was deleted."""
        block = self._loaded_board.tree.get(str(act.args.get("block")))
        if block is None:
            raise UsageError(translate("This block no longer exists."))
        return block

    # --- rendering -------------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """Return the heading, open requests, the columns, and the open block or the form for a new block."""
        if self._board is None:
            missing = translate("This project no longer exists.")
            return (Node("nothing", f"<p>{missing}</p>", css="af-quiet", text=missing),)
        progress = board_nodes.research_progress(self._transcript, self._board.tree)
        board = replace(self._board, research=dict(progress))
        next_phase = board_nodes.next_phase_button(board, is_confirming=self._confirming == "advance")
        generate = board_nodes.generate_buttons(board, is_confirming=self._confirming == "refresh")
        top = (board_nodes.heading(board), *generate, next_phase)
        nodes = [
            Node("top", kind="box", css="af-board-top", children=top),
            self._request_cards(),
            board_nodes.columns(board, is_live=True),
        ]
        form = () if self._form is None else (self._form,)
        if (block := board.tree.get(board.open_block_id)) is not None:
            detail = [*board_nodes.open_block_header(board, block, position_text(board, block.block_id))]
            detail += [board_nodes.delete_confirmation(board, block)] if self._confirming == "delete" else []
            # The prefix keeps the keys of the panel apart from the keys of the board.
            panel = () if self._panel is None else prefixed(self._panel.nodes(), "panel-")
            detail += [*form, *board_nodes.group_controls(board, block), *panel]
            nodes.append(Node("open", kind="box", css="af-board-block", children=tuple(detail)))
        else:
            nodes += form
        return (*nodes, *board_nodes.deleted_blocks(board), board_nodes.download_buttons())

    def saved_nodes(self) -> tuple[Node, ...]:
        """Return the board and its texts, readable without a kernel."""
        if self._board is None:
            return self.nodes()
        requests = self._request_cards().children
        return saved_board(self._board, self._versions, self._rendered_texts, requests, with_dates=self._with_dates)

    def _request_cards(self) -> Node:
        """Build the cards of the open requests; the cards look as in the chat."""
        requests = map(TranscriptRequest.from_stored, self._loaded_board.requests)
        return approval_box(approval_card(request, self._tool(request.tool), self._cited_html) for request in requests)

    def _tool(self, name: str) -> Tool | None:
        return offered_tool(self._engine, name)

    # --- actions on the open block ---------------------------------------------------------------------------------

    async def act(self, act: PageAction) -> str:
        """Execute an action; actions that the board does not define belong to the panel of the open block."""
        if hasattr(self, f"act_{act.name}") or self._panel is None:
            return await super().act(act)
        message = await self._panel.act(act)
        await self.load()
        return message

    async def act_open(self, act: PageAction) -> None:
        """Open a block below the columns, or close an open block."""
        block = self._block(act)
        was_open = self._loaded_board.open_block_id == block.block_id
        self._close_block()
        self._close_form()
        if was_open:
            return
        self._open_block(block.block_id)
        if not block.is_group:
            panel = ArtifactPanel(
                self._thread, self._conversation_id, artifact_id=block.block_id, with_dates=self._with_dates
            )
            await panel.open(self.screen)
            if self._loaded_board.open_block_id == block.block_id and self._panel is None:
                self._panel = panel
            else:  # while the panel was loading, the reader closed or changed the block
                panel.close()
        self.screen.effect(act.page, "show", key="open")

    async def act_close(self, act: PageAction) -> None:
        """Close the open block, and move the focus to its card."""
        key = f"{CARD_PREFIX}{self._loaded_board.open_block_id}"
        self._close_block()
        self.screen.effect(act.page, "focus", key=key)

    async def act_leave(self, _act: PageAction) -> None:
        """Close the form or the confirmation without a change."""
        self._close_form()

    # --- new blocks, names and settings ----------------------------------------------------------------------------

    async def act_add_ask(self, act: PageAction) -> None:
        """Show the form for a new block."""
        self._close_block()
        self._close_form()
        self._form = add_form(self._loaded_board, str(act.args.get("phase")))
        self.screen.effect(act.page, "show", key=self._form.key)

    async def act_add(self, act: PageAction) -> None:
        """Add the block of the form."""
        edit = read_new(self._loaded_board, act.args["values"])
        block = (await self._change(edit, "It was added on the board."))[0]
        self._close_form()
        self.screen.effect(act.page, "focus", key=f"{CARD_PREFIX}{block.artifact_id}")
        position = position_text(self._loaded_board, block.artifact_id)
        self._announcement = translate("{name} is {position}.", name=block.title, position=position)

    async def act_set_ask(self, act: PageAction) -> None:
        """Open the form for the name and the settings of a block."""
        block = self._block(act)
        self._close_form()
        self._form = settings_form(self._loaded_board, block)

    async def act_set(self, act: PageAction) -> None:
        """Save the name and the settings of the form."""
        block = self._block(act)
        edit = read_settings(self._loaded_board, block.block_id, act.args["before"], act.args["values"])
        versions = await self._change(edit, "It was set on the board.")
        self._close_form()
        self.screen.effect(act.page, "focus", key="open-doing")
        name = self._loaded_board.tree.block_name(block.block_id)
        self._announcement = translate("{name}: saved.", name=name) if versions else translate("Nothing was changed.")

    # --- deletion --------------------------------------------------------------------------------------------------

    async def act_delete_ask(self, act: PageAction) -> None:
        """Ask for a confirmation that lists the blocks within a block and the dependents of the block."""
        self._block(act)
        self._close_form()
        self._confirming = "delete"
        self.screen.effect(act.page, "focus", key="open-deleting")

    async def act_delete(self, act: PageAction) -> str:
        """Delete a block; `Conflict` if its content or dependents changed since the confirmation listed them."""
        block, seen_impact = self._block(act), act.args.get("seen")

        def edit(tree: BlockTree) -> Sequence[Block]:
            if board_nodes.deletion_impact(tree, block.block_id) != seen_impact:
                raise Conflict(
                    translate(
                        "The blocks in '{name}' or its dependents were changed meanwhile. Look at the blocks again.",
                        name=block.name,
                    )
                )
            return block_edits.delete_block(tree, block.block_id, anyway=True)

        await self._change(edit, "It was deleted on the board.")
        self._close_form()
        self.screen.effect(act.page, "focus", key=f"{NEW_PREFIX}{block.phase}")
        return translate("{name} is deleted. It can be brought back below.", name=block.name)

    async def act_bring_back(self, act: PageAction) -> str:
        """Restore a deleted block and the blocks that were in it."""
        block_id = str(act.args.get("block"))
        await self._change(partial(block_edits.restore_block, block_id=block_id), "It was brought back on the board.")
        self.screen.effect(act.page, "focus", key=f"{CARD_PREFIX}{block_id}")
        name, position = self._loaded_board.tree.block_name(block_id), position_text(self._loaded_board, block_id)
        return translate("{name} is back, {position}.", name=name, position=position)

    # --- review ----------------------------------------------------------------------------------------------------

    async def act_approve(self, act: PageAction) -> str:
        """Set a block to completed; `Conflict` if its text changed since the reader saw the text."""
        block = self._block(act)
        edit = partial(block_edits.configure_block, block_id=block.block_id, settings={"status": "completed"})
        await self._change(self._if_unchanged(edit, act), "It was approved.")
        return translate("{name} is approved.", name=block.name)

    async def act_keep(self, act: PageAction) -> str:
        """Mark a stale block as up to date; `Conflict` if its text changed since the reader saw the text."""
        block = self._block(act)
        edit = partial(block_edits.mark_block_current, block_id=block.block_id)
        await self._change(self._if_unchanged(edit, act), "It still holds.")
        return translate("{name} is no longer stale.", name=block.name)

    # --- position --------------------------------------------------------------------------------------------------

    async def act_step(self, act: PageAction) -> str:
        """Move a card one step by the keyboard."""
        block_id = str(act.args.get("card")).removeprefix(CARD_PREFIX)
        return await self._move(act, block_id, step_block(block_id, str(act.args.get("to"))), is_by_key=True)

    async def act_move(self, act: PageAction) -> str:
        """Move a card to where it was dropped."""
        card, into, before = (str(act.args.get(name, "")) for name in ("card", "into", "before"))
        return await self._move(act, card.removeprefix(CARD_PREFIX), drop_block(card, into, before))

    async def act_group(self, act: PageAction) -> str:
        """Move the open block to the end of a group, or out of its group to the top level of its phase."""
        block = self._block(act)
        groups = board_nodes.group_choices(self._loaded_board, block.block_id)
        choice = act.args.get("values", {}).get("group")
        if choice not in groups:
            raise UsageError(translate("This group was deleted or moved meanwhile. Choose another group."))
        position = BlockPosition(parent=group) if (group := groups[choice]) else BlockPosition(block.phase)
        return await self._move(act, block.block_id, partial(move_block, block_id=block.block_id, position=position))

    async def _move(self, act: PageAction, block_id: str, edit: BlockEdit, *, is_by_key: bool = False) -> str:
        await self._change(edit, "It was moved on the board.")
        block = self._loaded_board.tree[block_id]
        # An element that moves within the page loses the focus. The buttons that move the open block keep the focus.
        if is_by_key and self._loaded_board.open_block_id != block_id:
            self.screen.effect(act.page, "focus", key=f"{CARD_PREFIX}{block_id}")
        position = position_text(self._loaded_board, block_id)
        return translate("{name} is now {position}.", name=block.name, position=position)

    async def _change(self, edit: BlockEdit, reason: str) -> list[Artifact]:
        """Apply an edit; return the written versions."""
        try:
            return await self._engine.service(ProjectStore).change(self._authorship(reason), edit)
        finally:  # also after a conflict: the reader must see its cause
            await self.load()
            self.screen.save_soon()

    def _authorship(self, reason: str) -> Authorship:
        """Return the authorship of a change that the person makes on the board."""
        return Authorship(self._conversation_id, self._message_id, USER, reason=reason)

    # --- phases ----------------------------------------------------------------------------------------------------

    async def act_advance_ask(self, act: PageAction) -> str:
        """Advance to the next phase, or first ask for a confirmation that lists the unfinished blocks."""
        await self.load()
        if self._loaded_board.unfinished:
            self._close_form()
            self._confirming = "advance"
            return ""
        return await self.act_advance(act)

    async def act_advance(self, act: PageAction) -> str:
        """Advance to the phase that the confirmation named, else to the next phase."""
        phase = str(act.args.get("phase") or self._loaded_board.info.next_phase)
        authorship = self._authorship("Gone on, on the board.")
        await self._engine.service(ProjectStore).set_info(authorship, lambda info: info.advanced(phase))
        self._close_form()
        await self.load()
        self.screen.save_soon()
        board = self._loaded_board
        labels = {each.name: board_nodes.phase_label(each) for each in board.info.phases}
        return translate("The project is in {phase} now.", phase=labels[phase])

    # --- download --------------------------------------------------------------------------------------------------

    async def act_save(self, act: PageAction) -> str:
        """Download the document as a file."""
        load = project_document(self._conversation_id, self._message_id)
        return await self.download(act, await self._engine.database.read(load))

    # --- runs ------------------------------------------------------------------------------------------------------

    async def act_decide(self, act: PageAction) -> None:
        """Decide an open approval request."""
        request_id = act.args.get("request")
        request = next((request for request in self._loaded_board.requests if request.id == request_id), None)
        if request is None:
            raise NotFound(
                translate("The run of this request is no longer displayed. wb.pending() lists the open requests.")
            )
        decision = read_decision(act.args, TranscriptRequest.from_stored(request), self._tool(request.tool))
        await self._engine.controller.decide(request.id, replace(decision, by_code=False))
        await self._poller.poll()

    async def act_write(self, act: PageAction) -> None:
        """Start a run that writes the empty blocks with `auto_generate`."""
        await self._write(act, is_refresh=False)

    async def act_refresh_ask(self, _act: PageAction) -> None:
        """Ask for a confirmation that lists the stale blocks."""
        self._close_form()
        self._confirming = "refresh"

    async def act_refresh(self, act: PageAction) -> None:
        """Start a run that writes the stale blocks again."""
        await self._write(act, is_refresh=True)

    async def _write(self, act: PageAction, *, is_refresh: bool) -> None:
        await self.load()
        board = self._loaded_board
        question, block_ids = writing_request(board.info.name, board.tree, is_refresh=is_refresh)
        controller = self._engine.controller
        try:
            run = await controller.begin(
                question, conversation_id=self._conversation_id, flow=COMPOSE, work={"write": list(block_ids)}
            )
        except Conflict as error:  # another run of the project is unfinished
            raise Conflict(
                translate(
                    "A run is in progress in this project. Wait for it, decide its requests, or stop it; "
                    "then try again."
                )
            ) from error
        await controller.start(run)
        self._close_form()
        await self.load()
        self.screen.effect(act.page, "focus", key="writing")
        blocks = translate_count(len(block_ids), "block")
        self._announcement = translate("The run writes {blocks}.", blocks=blocks)

    async def _run_client(self) -> RunClient:
        """Return the client of the unfinished run; `NotFound` if no run is unfinished."""
        await self.load()
        if (run := self._loaded_board.run) is None:
            raise NotFound(translate("The run has ended."))
        return RunClient(self._thread, await self._engine.runs.get(run.run_id))

    async def act_stop(self, _act: PageAction) -> None:
        """Cancel the run."""
        await (await self._run_client()).cancel()
        await self._poller.poll()

    async def act_resume(self, _act: PageAction) -> None:
        """Resume an abandoned run."""
        await (await self._run_client()).resume()
        await self._poller.poll()

    def _if_unchanged(self, edit: Any, act: PageAction) -> BlockEdit:
        """Wrap an edit: raise `Conflict` if the text of the block was changed since the page displayed the text."""

        def checked_edit(tree: BlockTree) -> Sequence[Block]:
            block = tree.get(str(act.args.get("block")))
            if block is not None and block.sha256 != act.args.get("sha256"):
                author = agent_label(block.created_by)
                raise Conflict(
                    translate(
                        "The text of '{name}' was changed meanwhile (now version {version}, by {author}). "
                        "Read the text first.",
                        name=block.name,
                        version=block.version,
                        author=author,
                    )
                )
            blocks: Sequence[Block] = edit(tree)
            return blocks

        return checked_edit
