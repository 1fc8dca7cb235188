"""The edits of the board: moved cards, and the forms for new blocks and for the settings of existing blocks.

The keyboard moves a card by one step; the mouse drops a card at any position.

Invalid input is reported at its field (`FormError`). Only changed fields are written, so that a form does not undo
changes that others made while the form was open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from artifactflow_nb.core.language import translate, translate_list
from artifactflow_nb.core.text.markdown import escape_with_language
from artifactflow_nb.core.text.panels import scroll_box
from artifactflow_nb.errors import FormError, UsageError
from artifactflow_nb.plugins.projects import board_nodes
from artifactflow_nb.plugins.projects.board_nodes import CARD_PREFIX, GROUP_PREFIX, PHASE_PREFIX, Board, phase_label
from artifactflow_nb.plugins.projects.edits import (
    BlockEdit,
    BlockPosition,
    NewBlock,
    add_block,
    configure_block,
    move_block,
    rename_block,
)
from artifactflow_nb.plugins.projects.tree import MAX_NAME_CHARS, Block, BlockTree, validate_block_name
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.store.runs import WAITING
from artifactflow_nb.widgets.artifacts.nodes import ArtifactTexts, artifact_text
from artifactflow_nb.widgets.forms.form import Field, form_node
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import saved_html
from artifactflow_nb.widgets.run.saved import hint_for_status


def saved_board(
    board: Board,
    present: Sequence[Artifact],
    rendered: ArtifactTexts,
    request_nodes: Sequence[Node] = (),
    *,
    with_dates: bool,
) -> tuple[Node, ...]:
    """Build the nodes of the saved output; without dates the output of equal projects is equal.

    `present` are the current versions of the texts, and `request_nodes` the cards of open approval requests.
    """
    versions = {version.artifact_id: version for version in present}
    folds = []
    for block in board.tree:
        version = versions.get(block.block_id)
        if block.sha256 and version is not None:
            path = escape_with_language(board.tree.path(block.block_id))
            label = translate("v{number}", number=version.version)
            html = f'<span class="af-title">{path}</span> <span class="af-out">{label}</span>'
            text = artifact_text(f"text-{block.block_id}", version, rendered, with_dates=with_dates)
            folds.append(Node(f"text-{block.block_id}", html, "fold", "af-artifact", children=text))
    html = saved_html((board_nodes.columns(board, is_live=False),))
    columns = scroll_box(html, "af-board-scroll", translate("Phases"))
    hint = [Node("hint", f"<p>{hint_for_status(WAITING)}</p>", css="af-notice")] if request_nodes else []
    lines = [translate("Project {name}", name=board.info.name), *([hint_for_status(WAITING)] if board.requests else [])]
    for phase in board.info.phases:  # omits empty phases except the current phase
        blocks, is_current = board.tree.blocks_in_phase(phase.name), phase.name == board.current_phase
        if blocks or is_current:
            lines.append(translate("{phase} (now):" if is_current else "{phase}:", phase=phase_label(phase)))
        for block in blocks:
            depth = board.tree.path(block.block_id).count("/") + 1
            states = translate_list(state for _, state in board_nodes.block_states(board, block))
            lines.append(f"{'  ' * depth}- {translate('{name}: {states}', name=block.name, states=states)}")
    heading = replace(board_nodes.heading(board), text="\n".join(lines))
    return (heading, *hint, *request_nodes, Node("phases", columns), *folds)


_TEXT_FIELDS = ("text", "prompt", "depends_on")
"""Fields that a group cannot have."""
_ROWS = 3


def block_positions(board: Board) -> dict[str, BlockPosition]:
    """Map labels to positions for a new block: the end of a phase, or of a group by its path."""
    phases = {phase_label(phase): BlockPosition(phase.name) for phase in board.info.phases}
    groups = {
        translate("in {path}", path=board.tree.path(block.block_id)): BlockPosition("", block.block_id)
        for block in board.tree
        if block.is_group
    }
    return {**phases, **groups}


def add_form(board: Board, phase: str) -> Node:
    """Build the form for a new block, with the end of a phase as its preselected position."""
    positions = block_positions(board)
    kinds = translate("a text", context="block"), translate("a group, which contains other blocks")
    preselected = next((label for label, position in positions.items() if position.phase == phase), "")
    fields = (
        Field("name", "text", "", translate("Name"), required=True, autofocus=True, keep=True),
        Field("where", "choice", preselected, translate("Position"), choices=tuple(positions), keep=True),
        Field("kind", "choice", kinds[0], translate("Kind of block"), choices=kinds, keep=True),
        Field("text", "multiline", "", translate("Text, if there is one already"), rows=_ROWS, keep=True),
        *_settings_fields("", (), _possible_dependencies(board.tree), auto_generate=False, need_review=False),
    )
    return _form("add", translate("Add the block"), translate("A new block"), fields, {})


def _settings_fields(
    prompt: str, depends_on: Sequence[str], choices: Sequence[str], *, auto_generate: bool, need_review: bool
) -> tuple[Field, ...]:
    fields = (
        Field("prompt", "multiline", prompt, translate("What the text should say"), rows=_ROWS, keep=True),
        Field("depends_on", "list", tuple(depends_on), translate("Depends on"), choices=tuple(choices), keep=True),
        Field("auto_generate", "checkbox", auto_generate, translate("Write it automatically"), keep=True),
        Field("need_review", "checkbox", need_review, translate("I review the text before it counts"), keep=True),
    )
    # Without choices the list would become a field for typed names.
    return fields if choices else tuple(field for field in fields if field.name != "depends_on")


def _possible_dependencies(tree: BlockTree, block_id: str = "") -> list[str]:
    """List the paths of the blocks that a block can depend on."""
    dependents = {block_id, *(block.block_id for block in tree.dependents(block_id))} if block_id else set()
    return [tree.path(block.block_id) for block in tree if not block.is_group and block.block_id not in dependents]


def settings_form(board: Board, block: Block) -> Node:
    """Build the form for the name and the settings of a block; a group has only a name."""
    ids_by_path = {board.tree.path(key): key for key in block.depends_on if key in board.tree}
    settings: dict[str, Any] = {
        "prompt": block.prompt, "auto_generate": block.auto_generate, "need_review": block.need_review
    }  # fmt: skip
    name = Field("name", "text", block.name, translate("Name"), required=True, autofocus=True, keep=True)
    choices = _possible_dependencies(board.tree, block.block_id)
    more = () if block.is_group else _settings_fields(depends_on=tuple(ids_by_path), choices=choices, **settings)
    fields = (name, *more)
    before = {"name": block.name} if block.is_group else {"name": block.name, **settings, "depends_on": ids_by_path}
    label = translate("Name and settings of {name}", name=block.name)
    return _form("set", translate("Save"), label, fields, {"block": block.block_id, "before": before})


def _form(act: str, submit: str, label: str, fields: Sequence[Field], args: Mapping[str, Any]) -> Node:
    html = f"<strong>{escape_with_language(label)}</strong>"
    cancel = {"cancel": translate("Cancel"), "cancelAct": "leave"}
    return form_node(
        f"form-{act}", act, submit, label, fields, css="af-board-form", html=html, args=args, cancel=cancel
    )


def read_new(board: Board, values: Mapping[str, Any]) -> BlockEdit:
    """Read the form for a new block as an edit.

    Errors: `FormError` for an invalid name, an unknown dependency, a deleted position, or a group with a field that
    only texts have.
    """
    name = _name(values)
    position = block_positions(board).get(str(values.get("where")))
    if position is None:
        raise FormError({"where": translate("This position no longer exists: choose another position.")})
    text = str(values.get("text") or "")
    dependencies = [_dependency(board.tree, line, {}) for line in _lines(values)]
    entered: dict[str, Any] = {"prompt": str(values.get("prompt") or ""), "depends_on": dependencies}
    entered |= {key: values.get(key) is True for key in ("auto_generate", "need_review")}
    settings = {key: value for key, value in entered.items() if value}
    if values.get("kind") == translate("a group, which contains other blocks"):
        invalid = [key for key in _TEXT_FIELDS if (text if key == "text" else settings.get(key))]
        if invalid:
            problem = translate("Leave this empty: a group has blocks, but no text of its own.")
            raise FormError(dict.fromkeys(invalid, problem))
        settings = {"is_group": True}
    return lambda tree: add_block(tree, NewBlock(name, position, settings, text, USER))


def read_settings(board: Board, block_id: str, before: Mapping[str, Any], values: Mapping[str, Any]) -> BlockEdit:
    """Read the form for settings as an edit of the changed fields.

    The form was opened with the values `before`, where `depends_on` maps displayed paths to block ids.

    Errors: `FormError` for an invalid name or an unknown dependency.
    """
    name, ids_by_path = _name(values), before.get("depends_on") or {}
    settings = {key: values[key] for key in before if key not in {"name", "depends_on"} and values[key] != before[key]}
    if (lines := _lines(values)) != list(ids_by_path):
        settings["depends_on"] = [_dependency(board.tree, line, ids_by_path) for line in lines]

    def edit(tree: BlockTree) -> Sequence[Block]:
        renamed = rename_block(tree, block_id, name) if name != before["name"] else ()
        # The settings are applied to the renamed block, so that one version has both changes.
        after = BlockTree((*tree, *tree.deleted.values(), *renamed), tree.phases, tree.used_ids)
        return configure_block(after, block_id, settings) if settings else renamed

    return edit


def _name(values: Mapping[str, Any]) -> str:
    try:
        return validate_block_name(str(values.get("name") or ""))
    except UsageError:
        problem = translate(
            "This cannot be the name: a name has 1 to {most} characters, contains no '/' and does not begin with '@'.",
            most=MAX_NAME_CHARS,
        )
        raise FormError({"name": problem}) from None


def _lines(values: Mapping[str, Any]) -> list[str]:
    return [line.strip() for line in values.get("depends_on") or () if line.strip()]


def _dependency(tree: BlockTree, line: str, ids_by_path: Mapping[str, str]) -> Block:
    """Find the block of a line in the form: by id if the form displayed the line, else by name."""
    try:
        return tree.get(ids_by_path.get(line, "")) or tree.find(line)
    except UsageError:
        raise FormError({"depends_on": translate("There is no block '{name}'.", name=line)}) from None


def step_block(block_id: str, to: str) -> BlockEdit:
    """Move a block one step `up` or `down` among its siblings, or to the end of the phase to its `left` or `right`.

    Errors: `UsageError` if the block is at the end in this direction.
    """

    def edit(tree: BlockTree) -> Sequence[Block]:
        if (block := tree.get(block_id)) is None:
            raise UsageError(translate("This block no longer exists."))
        siblings = _siblings(tree, block)
        index = siblings.index(block_id)
        if to in {"up", "down"}:
            if index == (0 if to == "up" else len(siblings) - 1):
                if to == "up":
                    raise UsageError(translate("'{name}' is at the top of its list already.", name=block.name))
                raise UsageError(translate("'{name}' is at the end of its list already.", name=block.name))
            # A position names the block that follows: one step down is before the sibling after the next sibling.
            behind = siblings[index - 1] if to == "up" else next(iter(siblings[index + 2 :]), "")
            group = _group(tree, block)
            return move_block(tree, block_id, BlockPosition("" if group else block.phase, group, behind))
        n = tree.phases.index(block.phase) + (1 if to == "right" else -1)
        if not 0 <= n < len(tree.phases):
            if to == "right":
                raise UsageError(translate("'{name}' is in the last phase already.", name=block.name))
            raise UsageError(translate("'{name}' is in the first phase already.", name=block.name))
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
    """Return the position of a block in words: `2 of 3 in Report`."""
    tree = board.tree
    block = tree[block_id]
    siblings = _siblings(tree, block)
    labels = {phase.name: phase_label(phase) for phase in board.info.phases}
    container = tree.block_name(block.parent) if block.parent in tree else labels.get(block.phase, block.phase)
    return translate("{n} of {total} in {place}", n=siblings.index(block_id) + 1, total=len(siblings), place=container)


def _siblings(tree: BlockTree, block: Block) -> list[str]:
    """List the ids of the blocks in the same phase and group, in order."""
    return [other.block_id for other in tree.children(_group(tree, block)) if other.phase == block.phase]


def _group(tree: BlockTree, block: Block) -> str:
    """Return the id of the block's group; empty at the top level, which includes blocks of deleted groups."""
    return block.parent if block.parent in tree else ""
