"""What a reader changes on the board with a press or a form: the edits that code makes with the project's handle."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from artifactflow_nb import block_edits
from artifactflow_nb.block_edits import BlockEdit, Place, moved
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.errors import Conflict, UsageError
from artifactflow_nb.widgets import board_nodes
from artifactflow_nb.widgets.board_forms import add_form, read_new, read_settings, settings_form
from artifactflow_nb.widgets.board_moves import dropped, place_of, stepped
from artifactflow_nb.widgets.board_nodes import CARD, NEW
from artifactflow_nb.widgets.board_state import BoardState
from artifactflow_nb.widgets.view import Act


class BoardEditing(BoardState):
    """The acts that change blocks.

    What came of a form that is closed by it is announced: the form that would say it is gone.
    """

    async def act_leave(self, _act: Act) -> None:
        """Close the form, or leave what was asked about as it is."""
        self._leave()

    # --- new blocks, names and settings ----------------------------------------------------------------------------

    async def act_add_ask(self, act: Act) -> None:
        """Show the form for a new block."""
        self._shut()
        self._leave()
        self._form = add_form(self._shown, str(act.args.get("phase")))
        self.screen.effect(act.page, "show", key=self._form.key)

    async def act_add(self, act: Act) -> None:
        """Add the block of the form."""
        edit = read_new(self._shown, act.args["values"])
        added = (await self._change(edit, "It was added on the board."))[0]
        self._leave()
        self.screen.effect(act.page, "focus", key=f"{CARD}{added.artifact_id}")
        self._said = f"{added.title} is {place_of(self._shown.tree, added.artifact_id)}."

    async def act_set_ask(self, act: Act) -> None:
        """Show the form for the name and the settings of a block."""
        block = self._block(act)
        self._leave()
        self._form = settings_form(self._shown, block)

    async def act_set(self, act: Act) -> None:
        """Give a block the name and the settings of the form."""
        block = self._block(act)
        edit = read_settings(self._shown.tree, block.block_id, act.args["before"], act.args["values"])
        written = await self._change(edit, "It was set on the board.")
        self._leave()
        self.screen.effect(act.page, "focus", key="open-doing")
        self._said = f"{self._shown.tree.name(block.block_id)}: saved." if written else "Nothing was changed."

    # --- blocks that go --------------------------------------------------------------------------------------------

    async def act_delete_ask(self, act: Act) -> None:
        """Show what goes with a block, and what would be left without it."""
        self._block(act)
        self._leave()
        self._asking = "delete"
        self.screen.effect(act.page, "focus", key="open-deleting")

    async def act_delete(self, act: Act) -> str:
        """Delete a block, if what the reader was shown is all that goes with it and rests on it."""
        block, seen = self._block(act), act.args.get("seen")

        def edit(tree: BlockTree) -> Sequence[Block]:
            if board_nodes.bereft(tree, block.block_id) != seen:
                raise Conflict(f"What is in {block.name!r} or depends on it is other by now. Look at it again.")
            return block_edits.deleted(tree, block.block_id, anyway=True)

        await self._change(edit, "It was deleted on the board.")
        self._leave()
        self.screen.effect(act.page, "focus", key=f"{NEW}{block.phase}")
        return f"{block.name} is deleted. It can be brought back below."

    async def act_bring_back(self, act: Act) -> str:
        """Bring a deleted block back, with what was in it."""
        key = str(act.args.get("block"))
        await self._change(partial(block_edits.restored, block_id=key), "It was brought back on the board.")
        self.screen.effect(act.page, "focus", key=f"{CARD}{key}")
        return f"{self._shown.tree.name(key)} is back, {place_of(self._shown.tree, key)}."

    # --- what is said of a text ------------------------------------------------------------------------------------

    async def act_approve(self, act: Act) -> str:
        """Complete a block, if its text is still the one that the reader saw."""
        block = self._block(act)
        edit = partial(block_edits.configured, block_id=block.block_id, settings={"status": "completed"})
        await self._change(_as_seen(edit, act), "It was approved.")
        return f"{block.name} is approved."

    async def act_keep(self, act: Act) -> str:
        """Say that a stale text holds all the same."""
        block = self._block(act)
        edit = partial(block_edits.kept, block_id=block.block_id)
        await self._change(_as_seen(edit, act), "It still holds.")
        return f"{block.name} is not stale any more."

    # --- where it stands -------------------------------------------------------------------------------------------

    async def act_step(self, act: Act) -> str:
        """Move a card a step."""
        key = str(act.args.get("card")).removeprefix(CARD)
        return await self._moved(act, key, stepped(key, str(act.args.get("to"))), is_by_key=True)

    async def act_move(self, act: Act) -> str:
        """Move a card to where it was let go."""
        card, into, before = (str(act.args.get(name, "")) for name in ("card", "into", "before"))
        return await self._moved(act, card.removeprefix(CARD), dropped(card, into, before))

    async def act_group(self, act: Act) -> str:
        """Move the open block to the end of a group, or to the top."""
        block = self._block(act)
        known = board_nodes.groups_for(self._shown.tree, block.block_id)
        wanted = act.args.get("values", {}).get("group")
        if wanted not in known:
            raise UsageError("This group is not there any more.")
        place = Place(parent=group) if (group := known[wanted]) else Place(block.phase)
        return await self._moved(act, block.block_id, partial(moved, block_id=block.block_id, place=place))

    async def _moved(self, act: Act, block_id: str, edit: BlockEdit, *, is_by_key: bool = False) -> str:
        await self._change(edit, "It was moved on the board.")
        block = self._shown.tree[block_id]
        if is_by_key and self._shown.opened != block_id:  # an element that is moved in the page loses the focus
            self.screen.effect(act.page, "focus", key=f"{CARD}{block_id}")
        return f"{block.name} is now {place_of(self._shown.tree, block_id)}."


def _as_seen(edit: Any, act: Act) -> BlockEdit:
    """The edit, if the text of the block is still the one that the reader decided about."""

    def checked(tree: BlockTree) -> Sequence[Block]:
        block = tree.get(str(act.args.get("block")))
        if block is not None and block.sha256 != act.args.get("sha256"):
            raise Conflict(
                f"The text of {block.name!r} is another by now (version {block.version}, by {block.created_by}). "
                "Look at it before you decide."
            )
        made: Sequence[Block] = edit(tree)
        return made

    return checked
