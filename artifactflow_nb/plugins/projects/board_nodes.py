"""Parts of a project's board: the heading, a column per phase, a card per block, the controls and confirmations.

The live board and the saved output share these parts; cards of the saved output have names instead of buttons.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from artifactflow_nb.core.approvals import ApprovalRequest
from artifactflow_nb.core.language import EnglishText, current_language, translate, translate_list
from artifactflow_nb.core.text.format import translate_count
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.errors import UsageError
from artifactflow_nb.plugins.projects.project import RESEARCH_TOOL, Phase, ProjectInfo
from artifactflow_nb.plugins.projects.schedule import blocks_to_generate
from artifactflow_nb.plugins.projects.tree import STATUS_NAMES, Block, BlockStatus, BlockTree
from artifactflow_nb.store.runs import ABANDONED, RUNNING, WAITING
from artifactflow_nb.tools.web.tools import web_fetch
from artifactflow_nb.widgets.forms.form import Field, form_node
from artifactflow_nb.widgets.page.elements import action_attributes, button, format_buttons, status_mark
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.run.transcript import RunTranscript

CARD_PREFIX, PHASE_PREFIX, GROUP_PREFIX, NEW_PREFIX = "card-", "phase-", "group-", "new-"
"""Prefixes of node keys: of cards, of the lists of phases and of groups, and of the buttons that add a block.

The id of a block or the name of a phase follows.
"""

_STATUS_MARKS: Mapping[BlockStatus, str] = {"empty": "○", "draft": "◐", "in_progress": "●", "completed": "✓"}
_MAX_NAMES = 8
"""Names in the label of a button, which a screen reader reads out whole."""
_MOVES: Mapping[str, tuple[str, EnglishText]] = {
    "up": ("↑", "Move up"),
    "down": ("↓", "Move down"),
    "left": ("←", "Move to the phase before"),
    "right": ("→", "Move to the next phase"),
}
_RUN_SENTENCES: Mapping[str, EnglishText] = {
    WAITING: "The run waits for you.",
    ABANDONED: "The process of the run has ended.",
}
_WRITING: Mapping[str, EnglishText] = {
    RUNNING: "being written",
    WAITING: "waits for your decision",
    ABANDONED: "was being written: its process has ended",
}


@dataclass(frozen=True, slots=True)
class BoardRun:
    """The unfinished run of a project.

    Attributes:
        status: `running`, `waiting`, or `abandoned` (its process has died).
        n_done: Number of blocks that the run has finished.
        n_total: Number of blocks that the run writes; 0 for a run of the chat.
    """

    run_id: str
    status: str
    n_done: int = 0
    n_total: int = 0


@dataclass(frozen=True, slots=True)
class Board:
    """The content of the board.

    Attributes:
        tree: The blocks of the project.
        blocks_in_progress: The status of the run that writes a block, by block id.
        run: The unfinished run; None if all runs have ended.
        requests: The open approval requests of the unfinished run.
        open_block_id: The open block; empty for no block.
        research: The progress of the research for a block, by block id: `being researched, reading 2 of 3`.
    """

    info: ProjectInfo
    tree: BlockTree
    blocks_in_progress: Mapping[str, str] = field(default_factory=dict)
    run: BoardRun | None = None
    requests: tuple[ApprovalRequest, ...] = ()
    open_block_id: str = ""
    research: Mapping[str, str] = field(default_factory=dict)

    @property
    def current_phase(self) -> str:
        """The name of the phase that the project is in; empty once all blocks are completed."""
        blocks = [block for block in self.tree if not block.is_group]
        is_done = blocks and not self.tree.stale and all(block.status == "completed" for block in blocks)
        return "" if is_done else self.info.phase

    @property
    def next_phase(self) -> Phase | None:
        """The phase after the current phase; None in the last phase."""
        return next((phase for phase in self.info.phases if phase.name == self.info.next_phase), None)

    @property
    def unfinished(self) -> list[Block]:
        """The blocks of the phases up to the current phase that are not completed, or are stale."""
        names = self.info.phase_names
        phases = names[: names.index(self.info.phase) + 1]
        texts = (block for phase in phases for block in self.tree.blocks_in_phase(phase) if not block.is_group)
        return [block for block in texts if block.status != "completed" or block.block_id in self.tree.stale]


def phase_label(phase: Phase) -> str:
    """Return the display name of a phase in the language of the board, unescaped."""
    return phase.zh if current_language() == "zh" else phase.en


def heading(board: Board) -> Node:
    """Build the name of the project, its counts of blocks and its unfinished run."""
    blocks = [block for block in board.tree if not block.is_group]
    done = sum(block.status == "completed" for block in blocks)
    facts = [translate_count(len(blocks), "block"), translate("{n} completed", n=done)]
    facts.append(translate("{n} stale", n=len(board.tree.stale)))
    name = escape_with_language(board.info.name)
    html = f'<strong>{translate("Project")}</strong> {name} <span class="af-quiet">{" · ".join(facts)}</span>'
    if (run := board.run) is not None:
        text = translate(_RUN_SENTENCES.get(run.status, "A run is in progress."))
        if run.n_total:
            text += translate(
                " {done} of {blocks} done.", done=run.n_done, blocks=translate_count(run.n_total, "block")
            )
        html += f'<div class="af-board-run">{status_mark(run.status)} {text}</div>'
    return Node("head", html, css="af-board-head")


def generate_buttons(board: Board, *, is_confirming: bool) -> tuple[Node, ...]:
    """Build the buttons that start a run to write blocks, or the buttons that cancel or resume the unfinished run.

    During a confirmation, list the stale blocks to be written again.
    """
    if board.run is not None:
        buttons = [button(translate("Stop"), "stop", css="af-stop", name=translate("Stop this run", context="project"))]
        if board.run.status == ABANDONED:
            name = translate("Resume: continue the abandoned run", context="project")
            buttons.insert(0, button(translate("Resume"), "resume", css="af-primary", name=name))
        return (Node("writing", "".join(buttons), "controls", "af-controls"),)
    empty, stale = blocks_to_generate(board.tree), list(board.tree.stale)
    if is_confirming and stale:
        items = "".join(f"<li>{escape_with_language(board.tree.path(key))}</li>" for key in stale)
        controls = button(translate("Write the blocks again"), "refresh", css="af-primary")
        controls += button(translate("Keep the texts"), "leave")
        blocks = translate_count(len(stale), "block")
        text = translate("{blocks} would be written again, each after its dependencies:", blocks=blocks)
        html = f'<p>{text}</p><ul class="af-board-left">{items}</ul><div class="af-controls">{controls}</div>'
        return (Node("writing", html, "controls", "af-board-confirm"),)
    buttons = []
    if empty:
        names = translate_list(map(board.tree.block_name, empty[:_MAX_NAMES]))
        if len(empty) > _MAX_NAMES:
            names = translate("{names} and {n} more", names=names, n=len(empty) - _MAX_NAMES)
        blocks = translate_count(len(empty), "block")
        name = translate("Write {blocks}: {names}", blocks=blocks, names=names)
        buttons.append(button(translate("Write {blocks}", blocks=blocks), "write", name=name))
    if stale:
        label = translate("Write {blocks} again …", blocks=translate_count(len(stale), "stale block"))
        buttons.append(button(label, "refresh_ask"))
    return (Node("writing", "".join(buttons), "controls", "af-controls"),) if buttons else ()


def next_phase_button(board: Board, *, is_confirming: bool) -> Node:
    """Build the button to advance to the next phase, or the confirmation that lists the unfinished blocks.

    While a text waits for a review or a run is unfinished, a sentence says so instead.
    """
    phase = board.next_phase
    reviews = [board.tree.path(block.block_id) for block in board.unfinished if block.sha256 and not block.is_usable]
    name, reason = "" if phase is None else phase_label(phase), ""
    if phase is None:
        reason = translate("This is the last phase.")
    elif reviews:
        names = translate_list(reviews[:_MAX_NAMES])
        reason = translate("To go on to {phase}, first approve: {names}.", phase=name, names=names)
    elif board.run:
        reason = translate("You can go on to {phase} when the run has ended.", phase=name)
    if phase is None or reason:
        sentence = f'<span class="af-quiet">{escape_with_language(reason)}</span>'
        return Node("going-on", sentence, css="af-controls")
    label = translate("Go on to {phase}", phase=name)
    if not is_confirming:
        return Node("going-on", button(label, "advance_ask"), "controls", "af-controls")
    unfinished = board.unfinished
    items = ""
    for block in unfinished:
        states = [] if block.status == "completed" else [translate(STATUS_NAMES[block.status])]
        states += [translate("stale")] if block.block_id in board.tree.stale else []
        path = escape_with_language(board.tree.path(block.block_id))
        items += f"<li>{translate('{path}: {state}', path=path, state=translate_list(states))}</li>"
    blocks = translate_count(len(unfinished), "block")
    text = f"<p>{translate('{blocks} would be left open, unchanged:', blocks=blocks)}</p>"
    # The button names the phase, because another view may have advanced the project before the click.
    buttons = button(label, "advance", css="af-primary", phase=phase.name) + button(
        translate("Stay in this phase"), "leave"
    )
    html = f'{text}<ul class="af-board-left">{items}</ul><div class="af-controls">{buttons}</div>'
    return Node("going-on", html, "controls", "af-board-confirm")


def columns(board: Board, *, is_live: bool) -> Node:
    """Build one column per phase, in order, with its cards."""
    nodes = []
    for number, phase in enumerate(board.info.phases, 1):
        top_level = [block for block in board.tree.children() if block.phase == phase.name]
        n_texts = sum(not block.is_group for block in board.tree.blocks_in_phase(phase.name))
        is_current = phase.name == board.current_phase
        mark = f' <span class="af-board-now">{translate("now", context="phase")}</span>' if is_current else ""
        name = f'{number}. {escape_with_language(phase_label(phase))} <span class="af-quiet">{n_texts}</span>'
        html = f'<div class="af-board-phase" role="heading" aria-level="2">{name}{mark}</div>'
        children = [_list(board, f"{PHASE_PREFIX}{phase.name}", top_level, is_live)]
        if is_live:
            label = translate("Add a block to {phase}", phase=phase_label(phase))
            add = button(translate("+ Block"), "add_ask", name=label, phase=phase.name)
            children.append(Node(f"{NEW_PREFIX}{phase.name}", add, "controls", "af-board-new"))
        css = "af-board-column" + (" af-on" if is_current else "")
        nodes.append(Node(f"column-{phase.name}", html, "box", css, children=tuple(children)))
    return Node("columns", kind="box", css="af-board-columns", children=tuple(nodes))


def _list(board: Board, key: str, blocks: list[Block], is_live: bool) -> Node:
    cards = tuple(_card(board, block, is_live) for block in blocks)
    return Node(key, kind="list", css="af-board-list", children=cards)


def _card(board: Board, block: Block, is_live: bool) -> Node:
    key = f"{CARD_PREFIX}{block.block_id}"
    name = f'<span class="af-board-name">{escape_with_language(block.name)}</span>'
    states = " ".join(f'<span class="af-board-{css}">{escape(text)}</span>' for css, text in block_states(board, block))
    label = f'{name} <span class="af-board-state">{states}</span>'
    is_open = block.block_id == board.open_block_id
    if is_live:
        action = action_attributes("open", block=block.block_id)
        keys = "Alt+ArrowUp Alt+ArrowDown Alt+ArrowLeft Alt+ArrowRight"
        html = (
            f'<div class="af-board-label" draggable="true"><button type="button" class="af-board-open" {action} '
            f'aria-expanded="{str(is_open).lower()}" aria-keyshortcuts="{keys}">{label}</button></div>'
        )
        card = Node(f"{key}-label", html, "controls")
    else:
        card = Node(f"{key}-label", f'<div class="af-board-label">{label}</div>')
    members = list(board.tree.children(block.block_id)) if block.is_group else []
    group = (_list(board, f"{GROUP_PREFIX}{block.block_id}", members, is_live),) if block.is_group else ()
    css = ["af-board-card", *(["af-board-group"] if block.is_group else []), *(["af-on"] if is_open else [])]
    css += ["af-board-stale"] if block.block_id in board.tree.stale else []
    return Node(key, kind="item", css=" ".join(css), children=(card, *group))


def block_states(board: Board, block: Block) -> Iterator[tuple[str, str]]:
    """Yield a block's states as CSS suffix and text: `("is", "✓ completed")`, `("mark", "! stale")`; unescaped."""
    status = board.tree.status(block.block_id)
    label = translate(STATUS_NAMES[status])
    yield "is", f"{_STATUS_MARKS[status]} {translate('group, {status}', status=label) if block.is_group else label}"
    for mark in board.tree.marks(block.block_id):
        yield "mark", f"{'!' if mark == 'stale' else '?'} {translate(mark)}"
    if block.block_id in board.blocks_in_progress:
        yield "work", f"● {translate(_WRITING[board.blocks_in_progress[block.block_id]])}"
    elif block.block_id in board.research:
        yield "work", f"● {board.research[block.block_id]}"


def research_progress(transcript: RunTranscript, tree: BlockTree) -> Iterator[tuple[str, str]]:
    """Yield the ids of the blocks that a run is researching, each with the progress of its research."""
    for call in transcript.tool_uses:
        subrun, name = transcript.subruns.get(call.subrun_id), str(call.params.get("field_name") or "")
        if call.tool != RESEARCH_TOOL or call.status != RUNNING or subrun is None or not name:
            continue
        with suppress(UsageError):  # the block was deleted meanwhile
            block_id = tree.find(name).block_id
            readings = [each.status for each in subrun.tool_uses if each.tool == web_fetch.name]
            n_over = sum(status not in {RUNNING, WAITING} for status in readings)
            n, total = min(n_over + 1, len(readings)), len(readings)
            reading = translate("being researched, reading {n} of {total}", n=n, total=total)
            yield block_id, reading if readings else translate("being researched")


def open_block_header(board: Board, block: Block, position: str) -> tuple[Node, ...]:
    """Build the heading of the open block: name, position, notes, and the controls that are not for the text."""
    changed = board.tree.stale.get(block.block_id, ())
    dependencies = translate_list(map(board.tree.block_name, block.depends_on))
    notes = [
        translate("Changed since it was written: {names}.", names=translate_list(changed)) if changed else "",
        translate("Depends on: {names}.", names=dependencies) if dependencies else "",
        translate("What the text should say: {prompt}", prompt=block.prompt) if block.prompt else "",
    ]
    text = "".join(f'<p class="af-quiet">{escape_with_language(note)}</p>' for note in notes if note)
    name = ""  # the artifact panel below shows the title
    if block.parent:
        name = f'<div class="af-board-path">{escape_with_language(board.tree.path(block.block_id))}</div>'
    elif block.is_group:
        name = f'<div class="af-board-path">{escape_with_language(block.name)}</div>'
    heading = Node("open-head", f"{name}{text}")
    args: dict[str, Any] = {"block": block.block_id}
    buttons = []
    if block.sha256 and block.status != "completed":
        label, name_of_label = translate("Approve", context="block"), translate("Approve {name}", name=block.name)
        buttons.append(button(label, "approve", css="af-primary", name=name_of_label, sha256=block.sha256, **args))
    if changed:
        label = translate("Keep the text: {name}", name=block.name)
        buttons.append(button(translate("Keep the text"), "keep", name=label, sha256=block.sha256, **args))
    card = f"{CARD_PREFIX}{block.block_id}"
    moves = [button(arrow, "step", name=translate(label), card=card, to=to) for to, (arrow, label) in _MOVES.items()]
    moving = f'{"".join(moves)}<span class="af-quiet">{escape_with_language(position)}</span>'
    group = f'<span class="af-art-group" role="group" aria-label="{translate("Move the block")}">{moving}</span>'
    label = translate("Name and settings of {name}", name=block.name)
    buttons.append(button(translate("Settings …"), "set_ask", name=label, **args))
    label = translate("Delete {name}", name=block.name)
    buttons.append(button(translate("Delete …"), "delete_ask", name=label, **args))
    close = button(translate("Close"), "close", name=translate("Close {name}", name=block.name))
    controls = "".join([*buttons, group, close])
    return heading, Node("open-doing", controls, "controls", "af-controls af-board-doing")


def deletion_impact(tree: BlockTree, block_id: str) -> list[list[str]]:
    """Return the ids of the blocks that are deleted with a block, and of the blocks that depend on a deleted block."""
    descendants, dependents = tree.descendants(block_id), tree.dependents(block_id)
    return [[block.block_id for block in descendants], [block.block_id for block in dependents]]


def delete_confirmation(board: Board, block: Block) -> Node:
    """Build the confirmation before a block is deleted: the impact, and buttons to delete or keep the block.

    The delete button sends the impact, so that the board can reject the deletion if the impact has changed.
    """
    tree = board.tree
    descendants, dependents = impact = deletion_impact(tree, block.block_id)
    name = escape_with_language(block.name)
    question = translate("Delete '{name}'? The versions are kept, and the block can be brought back.", name=name)
    pieces = [f"<p>{question}</p>"]
    pieces += _block_list(tree, translate("Blocks that are deleted as well:"), descendants)
    remaining = [key for key in dependents if key not in descendants]
    pieces += _block_list(tree, translate("Dependent blocks, which become stale if they have a text:"), remaining)
    name = translate("Delete the block: {name}", name=block.name)
    buttons = button(
        translate("Delete the block"), "delete", css="af-primary", name=name, block=block.block_id, seen=impact
    )
    html = f'{"".join(pieces)}<div class="af-controls">{buttons}{button(translate("Keep the block"), "leave")}</div>'
    return Node("open-deleting", html, "controls", "af-board-confirm")


def _block_list(tree: BlockTree, title: str, keys: Sequence[str]) -> list[str]:
    if not keys:
        return []
    items = "".join(f"<li>{escape_with_language(tree.path(key))}</li>" for key in keys)
    return [f'<p>{title}</p><ul class="af-board-left">{items}</ul>']


def deleted_blocks(board: Board) -> tuple[Node, ...]:
    """Build the deleted blocks, each with a button to restore the block; a group is restored with the blocks in it."""
    deleted = [block for block in board.tree.deleted.values() if block.parent not in board.tree.deleted]
    if not deleted:
        return ()
    buttons = "".join(
        button(block.name, "bring_back", name=translate("Bring back {name}", name=block.name), block=block.block_id)
        for block in deleted
    )
    controls = Node("deleted-blocks", buttons, "controls", "af-controls")
    summary = translate("Deleted: {blocks}, to be brought back", blocks=translate_count(len(deleted), "block"))
    return (Node("deleted", summary, "fold", children=(controls,)),)


def group_choices(board: Board, block_id: str) -> dict[str, str]:
    """Map labels to the ids of the groups into which a block can move; the id of the top level is empty."""
    tree = board.tree
    own = {block_id, *(block.block_id for block in tree.descendants(block_id))}
    groups = (block for block in tree if block.is_group and block.block_id not in own)
    no_group = translate("no group: the top level of the phase")
    return {no_group: "", **{tree.path(group.block_id): group.block_id for group in groups}}


def group_controls(board: Board, block: Block) -> tuple[Node, ...]:
    """Build the form to choose the group of the open block; empty if the project has no other groups."""
    groups = group_choices(board, block.block_id)
    if len(groups) == 1:
        return ()
    current = next((label for label, group in groups.items() if group == block.parent), next(iter(groups)))
    field = Field("group", "choice", current, label=translate("Group"), choices=tuple(groups), keep=True)
    label = translate("Group of {name}", name=block.name)
    args = {"block": block.block_id}
    return (
        form_node("open-group", "group", translate("Move there"), label, [field], css="af-art-comparing", args=args),
    )


def download_buttons() -> Node:
    """Build a download button for each export format."""
    label = translate("Download the document")
    buttons = "".join(format_buttons("save", "Download the document as {form}: {kind}"))
    html = f'<span class="af-art-group" role="group" aria-label="{label}"><span>{label}</span>{buttons}</span>'
    return Node("taking-all", html, "controls", "af-controls af-art-controls af-art-taking")
