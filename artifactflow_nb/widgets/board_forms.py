"""The forms of the board: what a new block is to be, and what is set of one that is there; and how they are read.

What is wrong is said at the field that it is about. What nobody touched in a form stays as it is by then.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from artifactflow_nb.block_edits import BlockEdit, NewBlock, Place, added, configured, renamed
from artifactflow_nb.block_names import checked_name
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.errors import FormError, UsageError
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.text.markdown import speak
from artifactflow_nb.tools.forms import Field
from artifactflow_nb.widgets.board_nodes import Board, phase_label
from artifactflow_nb.widgets.tree import Node

_KINDS = ("a text", "a group, which holds others")
_OF_TEXTS = ("text", "prompt", "depends_on")
_ROWS = 3


def places(board: Board) -> dict[str, Place]:
    """Where a block may go, by what a reader is shown: a phase, or a group by its path."""
    phases = {phase_label(phase): Place(phase.name) for phase in board.head.phases}
    groups = {f"in {board.tree.path(one.block_id)}": Place("", one.block_id) for one in board.tree if one.is_group}
    return {**phases, **groups}


def add_form(board: Board, phase: str) -> Node:
    """The form for a new block, which stands at the end of a phase unless the reader chooses another place."""
    where = places(board)
    here = next((shown for shown, place in where.items() if place.phase == phase), "")
    fields = (
        Field("name", "text", "", "Name", required=True, autofocus=True, keep=True),
        Field("where", "choice", here, "Where it stands", choices=tuple(where), keep=True),
        Field("kind", "choice", _KINDS[0], "It is", choices=_KINDS, keep=True),
        Field("text", "multiline", "", "Text, if there is one already", rows=_ROWS, keep=True),
        *_settings("", (), auto_generate=False, need_review=False),
    )
    return _form("add", "Add it", "A new block", fields, {})


def _settings(prompt: str, needs: Sequence[str], *, auto_generate: bool, need_review: bool) -> tuple[Field, ...]:
    return (
        Field("prompt", "multiline", prompt, "What it shall say", rows=_ROWS, keep=True),
        Field("depends_on", "list", tuple(needs), "It depends on", doc="Names of blocks.", keep=True),
        Field("auto_generate", "checkbox", auto_generate, "It is written by itself", keep=True),
        Field("need_review", "checkbox", need_review, "Its text waits for your review", keep=True),
    )


def settings_form(board: Board, block: Block) -> Node:
    """The form for the name and the settings of a block; a group has a name only."""
    needs = {board.tree.path(key): key for key in block.depends_on if key in board.tree}
    shown: dict[str, Any] = {
        "prompt": block.prompt, "auto_generate": block.auto_generate, "need_review": block.need_review
    }  # fmt: skip
    name = Field("name", "text", block.name, "Name", required=True, autofocus=True, keep=True)
    fields = (name,) if block.is_group else (name, *_settings(needs=tuple(needs), **shown))
    before = {"name": block.name} if block.is_group else {"name": block.name, **shown, "depends_on": needs}
    return _form(
        "set", "Save", f"Name and settings of {block.name}", fields, {"block": block.block_id, "before": before}
    )


def _form(act: str, submit: str, label: str, fields: Sequence[Field], args: Mapping[str, Any]) -> Node:
    data = {
        "act": act,
        "args": dict(args),
        "submit": submit,
        "cancel": "Cancel",
        "cancelAct": "leave",
        "label": label,
        "fields": [field.as_json() for field in fields],
    }
    return Node(f"form-{act}", f"<strong>{speak(label)}</strong>", "form", "af-board-form", data=data)


def read_new(board: Board, values: Mapping[str, Any]) -> BlockEdit:
    """The edit that a form for a new block means.

    Errors: `FormError` for a name or a block that it depends on that cannot be, and for what no group has.
    """
    name = _name(values)
    place = places(board).get(str(values.get("where")))
    if place is None:
        raise FormError({"where": "This place is not there any more: choose another one."})
    text = str(values.get("text") or "")
    needs = [_need(board.tree, line, {}) for line in _lines(values)]
    given: dict[str, Any] = {"prompt": str(values.get("prompt") or ""), "depends_on": needs}
    given |= {key: values.get(key) is True for key in ("auto_generate", "need_review")}
    settings = {key: one for key, one in given.items() if one}
    if values.get("kind") == _KINDS[1]:
        stray = [key for key in _OF_TEXTS if (text if key == "text" else settings.get(key))]
        if stray:
            raise FormError(dict.fromkeys(stray, "Leave this out: a group holds blocks and says nothing itself."))
        settings = {"is_group": True}
    return lambda tree: added(tree, NewBlock(name, place, settings, text, USER))


def read_settings(tree: BlockTree, block_id: str, before: Mapping[str, Any], values: Mapping[str, Any]) -> BlockEdit:
    """The edit that a form for settings means: what is other in it than before.

    Args:
        tree: The blocks as they are shown.
        block_id: The block.
        before: What the form was made from; of `depends_on` the ids by what was shown.
        values: What stands in it.

    Errors: as for `read_new`.
    """
    name, had = _name(values), before.get("depends_on") or {}
    settings = {key: values[key] for key in before if key not in {"name", "depends_on"} and values[key] != before[key]}
    if (lines := _lines(values)) != list(had):
        settings["depends_on"] = [_need(tree, line, had) for line in lines]

    def edit(tree: BlockTree) -> Sequence[Block]:
        named = renamed(tree, block_id, name) if name != before["name"] else ()
        after = BlockTree((*tree, *tree.deleted.values(), *named), tree.phases, tree.taken)
        return configured(after, block_id, settings) if settings else named

    return edit


def _name(values: Mapping[str, Any]) -> str:
    try:
        return checked_name(str(values.get("name") or ""))
    except UsageError as error:
        raise FormError({"name": str(error)}) from None


def _lines(values: Mapping[str, Any]) -> list[str]:
    return [line.strip() for line in values.get("depends_on") or () if line.strip()]


def _need(tree: BlockTree, line: str, known: Mapping[str, str]) -> Block:
    """The block that is named in a form, or was shown in it."""
    try:
        return tree.get(known.get(line, "")) or tree.find(line)
    except UsageError as error:
        raise FormError({"depends_on": str(error)}) from None
