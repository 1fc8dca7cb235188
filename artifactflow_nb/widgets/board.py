"""The board of a project: phases as columns, blocks as cards, and the block that is open with its text and versions.

::

    head, what can be written, how to go on to the next phase
    what a run asks of the reader
    columns: cards, moved with the mouse or with Alt and the arrows
    a new block; or the open one: approve, set, move, delete; its text and versions as in the panel of artifacts

It follows the store: what a run writes, or somebody else changes, appears here.
"""

import asyncio
import base64

from artifactflow_nb.blocks import Block
from artifactflow_nb.export import FORMS, document_bytes, document_name, project_document
from artifactflow_nb.widgets import board_nodes
from artifactflow_nb.widgets.artifact_panel import ArtifactPanel
from artifactflow_nb.widgets.board_editing import BoardEditing
from artifactflow_nb.widgets.board_face import CSS, board_face
from artifactflow_nb.widgets.board_moves import place_of
from artifactflow_nb.widgets.board_nodes import CARD, Board
from artifactflow_nb.widgets.board_running import BoardRunning
from artifactflow_nb.widgets.tree import Node, prefixed
from artifactflow_nb.widgets.view import Act, Face


class BoardView(BoardEditing, BoardRunning):
    """Shows a project and lets the reader work on it."""

    label = "Project"
    css = CSS

    # --- what is shown ---------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """The head, what is asked, the columns, and the open block or the form for a new one."""
        board = self._board
        if board is None:
            return (Node("nothing", "<p>This project is not there any more.</p>", css="af-quiet"),)
        going = board_nodes.going_on(board, is_asking=self._asking == "advance")
        writing = board_nodes.writing(board, is_asking=self._asking == "refresh")
        head = Node("top", kind="box", css="af-board-top", children=(board_nodes.heading(board), *writing, going))
        made = [head, self._asks(), board_nodes.columns(board, is_live=True)]
        if (block := board.tree.get(board.opened)) is not None:
            made.append(Node("open", kind="box", css="af-board-block", children=self._detail(board, block)))
        elif self._form is not None:
            made.append(self._form)
        labels = {form: kind.label for form, kind in FORMS.items()}
        return (*made, *board_nodes.deleted(board), board_nodes.taking(labels))

    def _detail(self, board: Board, block: Block) -> tuple[Node, ...]:
        made = list(board_nodes.opened(board, block, place_of(board.tree, block.block_id)))
        if self._asking == "delete":
            made.append(board_nodes.deleting(board, block))
        if self._form is not None:
            made.append(self._form)
        inside = () if self._panel is None else prefixed(self._panel.nodes(), "panel-")
        return (*made, *board_nodes.grouping(board, block), *inside)

    def face(self) -> Face:
        """The board and its texts, to be read without a kernel."""
        asks = () if self._board is None else self._asks().children
        return board_face(self._board, self._present, self._texts, asks, dated=self._dated)

    # --- what is looked at -----------------------------------------------------------------------------------------

    async def act(self, act: Act) -> str:
        """What the board does not know is about the text of the open block."""
        if hasattr(self, f"act_{act.name}") or self._panel is None:
            return await super().act(act)
        told = await self._panel.act(act)
        await self._load()
        return told

    async def act_open(self, act: Act) -> None:
        """Open a block below the columns, or close the one that is open."""
        block = self._block(act)
        was_open = self._shown.opened == block.block_id
        self._shut()
        self._leave()
        if was_open:
            return
        self._open(block.block_id)
        if not block.is_group:
            panel = ArtifactPanel(self._thread, self._conversation_id, only=block.block_id, dated=self._dated)
            await panel.open(self.screen)
            if self._shown.opened == block.block_id and self._panel is None:
                self._panel = panel
            else:  # closed, or another opened, while it was read
                panel.close()
        self.screen.effect(act.page, "show", key="open")

    async def act_close(self, act: Act) -> None:
        """Close the block that is open, and go back to its card."""
        key = f"{CARD}{self._shown.opened}"
        self._shut()
        self.screen.effect(act.page, "focus", key=key)

    # --- phases ----------------------------------------------------------------------------------------------------

    async def act_advance_ask(self, act: Act) -> str:
        """Go on to the next phase; what would be left open is shown first."""
        await self._load()
        if self._shown.left_open:
            self._leave()
            self._asking = "advance"
            return ""
        return await self.act_advance(act)

    async def act_advance(self, act: Act) -> str:
        """Go on, to the phase that the reader was shown."""
        wanted = str(act.args.get("phase") or self._shown.head.next_phase)
        await self._engine.blocks.set_head(self._by("Gone on, on the board."), lambda head: head.in_phase(wanted))
        self._leave()
        await self._load()
        self.screen.keep()
        return f"The project is in {wanted} now."

    # --- what is taken along ---------------------------------------------------------------------------------------

    async def act_save(self, act: Act) -> str:
        """Have the page save the document as a file."""
        form = str(act.args.get("form"))
        document = await self._engine.database.read(project_document(self._conversation_id, self._message_id))
        content = await asyncio.to_thread(document_bytes, document, form)
        name = document_name(document, form)
        data = base64.b64encode(content).decode()
        self.screen.effect(act.page, "download", filename=name, media_type=FORMS[form].media_type, base64=data)
        return f"Downloaded as {name}."
