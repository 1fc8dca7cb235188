"""The edits of the board: moved cards, and the forms for new blocks and for the settings of existing ones.

The keyboard moves a card by one step; the mouse moves it to where it is dropped.

Invalid input is reported at its field (`FormError`). Only changed fields are written, so that a form does not undo
changes that others made while it was open.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from artifactflow_nb.core.document.edits import (
    BlockEdit,
    BlockPosition,
    NewBlock,
    add_block,
    configure_block,
    move_block,
    rename_block,
)
from artifactflow_nb.core.document.tree import MAX_NAME_CHARS, Block, BlockTree, validate_block_name
from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.markdown import escape_with_language
from artifactflow_nb.errors import FormError, UsageError
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.widgets.board.nodes import CARD_PREFIX, GROUP_PREFIX, PHASE_PREFIX, Board, phase_label
from artifactflow_nb.widgets.forms.form import Field, form_node
from artifactflow_nb.widgets.page.nodes import Node

_TEXT_FIELDS = ("text", "prompt", "depends_on")
"""Fields that a group cannot have."""
_ROWS = 3


def block_positions(board: Board) -> dict[str, BlockPosition]:
    """Map labels to positions for a new block: the end of a phase, or of a group by its path."""
    phases = {phase_label(board, phase): BlockPosition(phase.name) for phase in board.info.phases}
    groups = {
        board.texts("place_in", path=board.tree.path(block.block_id)): BlockPosition("", block.block_id)
        for block in board.tree
        if block.is_group
    }
    return {**phases, **groups}


def add_form(board: Board, phase: str) -> Node:
    """Build the form for a new block, with the end of a phase as its preselected position."""
    texts, positions = board.texts, block_positions(board)
    kinds = texts("kind_text"), texts("kind_group")
    preselected = next((label for label, position in positions.items() if position.phase == phase), "")
    fields = (
        Field("name", "text", "", texts("name"), required=True, autofocus=True, keep=True),
        Field("where", "choice", preselected, texts("where"), choices=tuple(positions), keep=True),
        Field("kind", "choice", kinds[0], texts("kind"), choices=kinds, keep=True),
        Field("text", "multiline", "", texts("first_text"), rows=_ROWS, keep=True),
        *_settings_fields(texts, "", (), _possible_dependencies(board.tree), auto_generate=False, need_review=False),
    )
    return _form(texts, "add", texts("add_it"), texts("new_block"), fields, {})


def _settings_fields(
    texts: Texts,
    prompt: str,
    depends_on: Sequence[str],
    known: Sequence[str],
    *,
    auto_generate: bool,
    need_review: bool,
) -> tuple[Field, ...]:
    fields = (
        Field("prompt", "multiline", prompt, texts("prompt"), rows=_ROWS, keep=True),
        Field("depends_on", "list", tuple(depends_on), texts("depends_on"), choices=tuple(known), keep=True),
        Field("auto_generate", "checkbox", auto_generate, texts("auto_generate"), keep=True),
        Field("need_review", "checkbox", need_review, texts("need_review"), keep=True),
    )
    # An empty list has no choices, and a field to type names into would be the only one.
    return fields if known else tuple(field for field in fields if field.name != "depends_on")


def _possible_dependencies(tree: BlockTree, block_id: str = "") -> list[str]:
    """The paths of the blocks that a block can depend on."""
    dependents = {block_id, *(block.block_id for block in tree.dependents(block_id))} if block_id else set()
    return [tree.path(block.block_id) for block in tree if not block.is_group and block.block_id not in dependents]


def settings_form(board: Board, block: Block) -> Node:
    """The form for the name and the settings of a block; a group has only a name."""
    texts = board.texts
    ids_by_path = {board.tree.path(key): key for key in block.depends_on if key in board.tree}
    settings: dict[str, Any] = {
        "prompt": block.prompt, "auto_generate": block.auto_generate, "need_review": block.need_review
    }  # fmt: skip
    name = Field("name", "text", block.name, texts("name"), required=True, autofocus=True, keep=True)
    known = _possible_dependencies(board.tree, block.block_id)
    more = () if block.is_group else _settings_fields(texts, depends_on=tuple(ids_by_path), known=known, **settings)
    fields = (name, *more)
    before = {"name": block.name} if block.is_group else {"name": block.name, **settings, "depends_on": ids_by_path}
    label = texts("settings_of", name=block.name)
    return _form(texts, "set", texts("save"), label, fields, {"block": block.block_id, "before": before})


def _form(texts: Texts, act: str, submit: str, label: str, fields: Sequence[Field], args: Mapping[str, Any]) -> Node:
    html = f"<strong>{escape_with_language(label)}</strong>"
    cancel = {"cancel": texts("cancel"), "cancelAct": "leave"}
    return form_node(
        f"form-{act}", act, submit, label, fields, css="af-board-form", html=html, args=args, cancel=cancel
    )


def read_new(board: Board, values: Mapping[str, Any]) -> BlockEdit:
    """Read the form for a new block as an edit.

    Errors: `FormError` for an invalid name, an unknown dependency, a deleted position, or a group with a field that
    only texts have.
    """
    texts, name = board.texts, _name(values, board.texts)
    position = block_positions(board).get(str(values.get("where")))
    if position is None:
        raise FormError({"where": texts("place_missing")})
    text = str(values.get("text") or "")
    dependencies = [_dependency(board.tree, line, {}, texts) for line in _lines(values)]
    entered: dict[str, Any] = {"prompt": str(values.get("prompt") or ""), "depends_on": dependencies}
    entered |= {key: values.get(key) is True for key in ("auto_generate", "need_review")}
    settings = {key: value for key, value in entered.items() if value}
    if values.get("kind") == texts("kind_group"):
        invalid = [key for key in _TEXT_FIELDS if (text if key == "text" else settings.get(key))]
        if invalid:
            raise FormError(dict.fromkeys(invalid, texts("leave_out")))
        settings = {"is_group": True}
    return lambda tree: add_block(tree, NewBlock(name, position, settings, text, USER))


def read_settings(board: Board, block_id: str, before: Mapping[str, Any], values: Mapping[str, Any]) -> BlockEdit:
    """Read the form for settings as an edit of the changed fields.

    The form was opened with the values `before`, where `depends_on` maps displayed paths to block ids.

    Errors: `FormError` for an invalid name or an unknown dependency.
    """
    name, ids_by_path = _name(values, board.texts), before.get("depends_on") or {}
    settings = {key: values[key] for key in before if key not in {"name", "depends_on"} and values[key] != before[key]}
    if (lines := _lines(values)) != list(ids_by_path):
        settings["depends_on"] = [_dependency(board.tree, line, ids_by_path, board.texts) for line in lines]

    def edit(tree: BlockTree) -> Sequence[Block]:
        renamed = rename_block(tree, block_id, name) if name != before["name"] else ()
        # The settings are applied to the renamed block, so that one version holds both changes.
        after = BlockTree((*tree, *tree.deleted.values(), *renamed), tree.phases, tree.used_ids)
        return configure_block(after, block_id, settings) if settings else renamed

    return edit


def _name(values: Mapping[str, Any], texts: Texts) -> str:
    try:
        return validate_block_name(str(values.get("name") or ""))
    except UsageError:
        raise FormError({"name": texts("name_invalid", most=MAX_NAME_CHARS)}) from None


def _lines(values: Mapping[str, Any]) -> list[str]:
    return [line.strip() for line in values.get("depends_on") or () if line.strip()]


def _dependency(tree: BlockTree, line: str, ids_by_path: Mapping[str, str], texts: Texts) -> Block:
    """The block of a line in the form: by its id if the form displayed the line, else by its name."""
    try:
        return tree.get(ids_by_path.get(line, "")) or tree.find(line)
    except UsageError:
        raise FormError({"depends_on": texts("dependency_missing", name=line)}) from None


def step_block(block_id: str, to: str, texts: Texts) -> BlockEdit:
    """Move a block one step `up` or `down` among its siblings, or to the end of the phase to its `left` or `right`.

    Errors: `UsageError` if the block is the first or last one in that direction.
    """

    def edit(tree: BlockTree) -> Sequence[Block]:
        if (block := tree.get(block_id)) is None:
            raise UsageError(texts("block_missing"))
        siblings = _siblings(tree, block)
        index = siblings.index(block_id)
        if to in {"up", "down"}:
            if index == (0 if to == "up" else len(siblings) - 1):
                raise UsageError(texts("is_first" if to == "up" else "is_last", name=block.name))
            # A position names the block behind it: one step down is in front of the sibling after the next.
            behind = siblings[index - 1] if to == "up" else next(iter(siblings[index + 2 :]), "")
            group = _group(tree, block)
            return move_block(tree, block_id, BlockPosition("" if group else block.phase, group, behind))
        n = tree.phases.index(block.phase) + (1 if to == "right" else -1)
        if not 0 <= n < len(tree.phases):
            raise UsageError(texts("in_last_phase" if to == "right" else "in_first_phase", name=block.name))
        return move_block(tree, block_id, BlockPosition(tree.phases[n]))

    return edit


def drop_block(card: str, into: str, before: str) -> BlockEdit:
    """Move a block into a list, before another card or to the end.

    Args:
        card: The key of the card on the board.
        into: The key of the list: of a phase or of a group.
        before: The key of the next card; empty for the end of the list.
    """

    def edit(tree: BlockTree) -> Sequence[Block]:
        block_id = card.removeprefix(CARD_PREFIX)
        phase = into.removeprefix(PHASE_PREFIX) if into.startswith(PHASE_PREFIX) else ""
        group = into.removeprefix(GROUP_PREFIX) if into.startswith(GROUP_PREFIX) else ""
        return move_block(tree, block_id, BlockPosition(phase, group, before.removeprefix(CARD_PREFIX)))

    return edit


def position_text(board: Board, block_id: str) -> str:
    """The position of a block in words: `2 of 3 in Report`."""
    tree = board.tree
    block = tree[block_id]
    siblings = _siblings(tree, block)
    labels = {phase.name: phase_label(board, phase) for phase in board.info.phases}
    container = tree.block_name(block.parent) if block.parent in tree else labels.get(block.phase, block.phase)
    return board.texts("position", n=siblings.index(block_id) + 1, total=len(siblings), place=container)


def _siblings(tree: BlockTree, block: Block) -> list[str]:
    """The ids of the blocks in the same phase and group, in order."""
    return [other.block_id for other in tree.children(_group(tree, block)) if other.phase == block.phase]


def _group(tree: BlockTree, block: Block) -> str:
    """Return the id of the block's group; empty at the top level, which includes blocks of deleted groups."""
    return block.parent if block.parent in tree else ""
