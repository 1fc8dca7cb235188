"""The parts of a project's board: its head, a column for each phase, a card for each block, what leads on.

The same parts make the live board and the one that a saved notebook keeps; that one has names in the place of buttons.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from artifactflow_nb.approvals import ApprovalRequest
from artifactflow_nb.block_order import to_generate
from artifactflow_nb.blocks import Block, BlockStatus, BlockTree
from artifactflow_nb.project_template import Phase
from artifactflow_nb.projects import ProjectHead
from artifactflow_nb.store.runs import INTERRUPTED, WAITING
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.markdown import escape, speak
from artifactflow_nb.tools.forms import Field
from artifactflow_nb.widgets.controls import acting, button
from artifactflow_nb.widgets.pieces import mark
from artifactflow_nb.widgets.tree import Node

CARD, PHASE, GROUP, NEW = "card-", "phase-", "group-", "new-"
"""What the keys of cards, of the lists of a phase and of a group, and of what adds a block to a phase begin with.

A block's id or a phase follows.
"""

_SIGNS: Mapping[BlockStatus, str] = {"empty": "○", "draft": "◐", "in_progress": "●", "completed": "✓"}
_MOST_NAMED = 8
AT_TOP = "no group, but the top of its phase"

_MOVES = {
    "up": ("↑", "Move up"),
    "down": ("↓", "Move down"),
    "left": ("←", "Move to the phase before"),
    "right": ("→", "Move to the next phase"),
}
_WORK = {
    "running": "being written",
    "waiting": "waits for your decision",
    "interrupted": "was being written: its process is gone",
}


@dataclass(frozen=True, slots=True)
class BoardRun:
    """The run that is at work on a project.

    Attributes:
        run_id: The run.
        status: `running`, `waiting`, or `interrupted`: its process is gone.
        n_done: How many of the blocks that it writes it is done with.
        n_wanted: How many it writes; 0 for one that talks with the person.
    """

    run_id: str
    status: str
    n_done: int = 0
    n_wanted: int = 0


@dataclass(frozen=True, slots=True)
class Board:
    """What the board shows.

    Attributes:
        head: The project.
        tree: Its blocks.
        work: The blocks that a run is at work on, by id, each with what that run is doing.
        run: The run that has not ended; None if all have.
        asked: What that run asks of the person.
        opened: The block that is open; empty if none is.
    """

    head: ProjectHead
    tree: BlockTree
    work: Mapping[str, str] = field(default_factory=dict)
    run: BoardRun | None = None
    asked: tuple[ApprovalRequest, ...] = ()
    opened: str = ""

    @property
    def next_phase(self) -> Phase | None:
        """The phase behind the present one."""
        return next((phase for phase in self.head.phases if phase.name == self.head.next_phase), None)

    @property
    def left_open(self) -> dict[str, str]:
        """What the phases up to the present one leave open, as `BlockTree.left_open` says it."""
        names = self.head.phase_names
        return self.tree.left_open(names[: names.index(self.head.phase) + 1])


def phase_label(phase: Phase) -> str:
    """What a phase is called for readers; unescaped."""
    return phase.en if phase.zh == phase.en else f"{phase.en} {phase.zh}"


def heading(board: Board) -> Node:
    """Which project it is, and how far."""
    texts = [block for block in board.tree if not block.is_group]
    done = sum(block.status == "completed" for block in texts)
    facts = [count(len(texts), "block"), f"{done} completed", f"{len(board.tree.stale)} stale"]
    html = f'<strong>Project</strong> {speak(board.head.name)} <span class="af-quiet">{" · ".join(facts)}</span>'
    return Node("head", f"{html}{_run(board.run)}", css="af-board-head")


def _run(run: BoardRun | None) -> str:
    """That somebody is at work on the project, or waits for the reader, and how far that is."""
    if run is None:
        return ""
    said = {WAITING: "The run waits for you.", INTERRUPTED: "The process of the run is gone."}
    far = f" {run.n_done} of {count(run.n_wanted, 'block')} done with." if run.n_wanted else ""
    return f'<div class="af-board-run">{mark(run.status)} {said.get(run.status, "A run is at work.")}{far}</div>'


def writing(board: Board, *, is_asking: bool) -> tuple[Node, ...]:
    """The buttons that have blocks written, or that end the run which does; what is stale is listed first."""
    if board.run is not None:
        made = [button("Stop", "stop", css="af-stop", name="Stop this run")]
        if board.run.status == INTERRUPTED:
            made.insert(0, button("Resume", "resume", css="af-primary", name="Resume: go on with the interrupted run"))
        return (Node("writing", "".join(made), "controls", "af-controls"),)
    empty, stale = to_generate(board.tree), list(board.tree.stale)
    if is_asking and stale:
        listed = "".join(f"<li>{speak(board.tree.path(key))}</li>" for key in stale)
        buttons = button("Write them anew", "refresh", css="af-primary") + button("Leave them", "leave")
        said = f"<p>{count(len(stale), 'block')} would be written anew, each after what it rests on:</p>"
        html = f'{said}<ul class="af-board-left">{listed}</ul><div class="af-controls">{buttons}</div>'
        return (Node("writing", html, "controls", "af-board-ask"),)
    made = [button(f"Write {count(len(empty), 'block')}", "write", name=_names(board, "Write", empty))] if empty else []
    made += [button(f"Write {count(len(stale), 'stale block')} anew …", "refresh_ask")] if stale else []
    return (Node("writing", "".join(made), "controls", "af-controls"),) if made else ()


def _names(board: Board, what: str, keys: Sequence[str]) -> str:
    """What a button is about: `Write 5 blocks: A, B, C and 2 more`."""
    more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
    return f"{what} {count(len(keys), 'block')}: {', '.join(map(board.tree.name, keys[:_MOST_NAMED]))}{more}"


def going_on(board: Board, *, is_asking: bool) -> Node:
    """The button that leads to the next phase; asked first where something is left open."""
    phase = board.next_phase
    if phase is None:
        return Node("going-on", '<span class="af-quiet">This is the last phase.</span>', css="af-controls")
    label = f"Go on to {phase_label(phase)}"
    if not is_asking:
        return Node("going-on", button(label, "advance_ask"), "controls", "af-controls")
    left = board.left_open
    listed = "".join(f"<li>{speak(path)}: {escape(what)}</li>" for path, what in left.items())
    said = f"<p>{count(len(left), 'block')} would be left open, and stay as now:</p>"
    buttons = button(label, "advance", css="af-primary", phase=phase.name) + button("Stay", "leave")
    html = f'{said}<ul class="af-board-left">{listed}</ul><div class="af-controls">{buttons}</div>'
    return Node("going-on", html, "controls", "af-board-ask")


def columns(board: Board, *, is_live: bool) -> Node:
    """A column for each phase, in order, with its cards."""
    made = tuple(_column(board, phase, n, is_live) for n, phase in enumerate(board.head.phases))
    return Node("columns", kind="box", css="af-board-columns", children=made)


def _column(board: Board, phase: Phase, n: int, is_live: bool) -> Node:
    tops = [block for block in board.tree.children() if block.phase == phase.name]
    n_texts = sum(not block.is_group for block in board.tree.of_phase(phase.name))
    is_now = phase.name == board.head.phase
    now = ' <span class="af-board-now">now</span>' if is_now else ""
    name = f'{n + 1}. {speak(phase_label(phase))} <span class="af-quiet">{n_texts}</span>'
    html = f'<div class="af-board-phase" role="heading" aria-level="4">{name}{now}</div>'
    inside = [_list(board, f"{PHASE}{phase.name}", tops, is_live)]
    if is_live:
        adding = button("+ Block", "add_ask", name=f"Add a block to {phase_label(phase)}", phase=phase.name)
        inside.append(Node(f"{NEW}{phase.name}", adding, "controls", "af-board-new"))
    css = "af-board-column" + (" af-on" if is_now else "")
    return Node(f"column-{phase.name}", html, "box", css, children=tuple(inside))


def _list(board: Board, key: str, blocks: list[Block], is_live: bool) -> Node:
    cards = tuple(_card(board, block, is_live) for block in blocks)
    return Node(key, kind="list", css="af-board-list", children=cards)


def _card(board: Board, block: Block, is_live: bool) -> Node:
    key = f"{CARD}{block.block_id}"
    name = f'<span class="af-board-name">{speak(block.name)}</span>'
    said = f'{name} <span class="af-board-state">{_state(board, block)}</span>'
    is_open = block.block_id == board.opened
    if is_live:
        act = acting("open", block=block.block_id)
        keys = "Alt+ArrowUp Alt+ArrowDown Alt+ArrowLeft Alt+ArrowRight"
        html = (
            f'<div class="af-board-face" draggable="true"><button type="button" class="af-board-open" {act} '
            f'aria-expanded="{str(is_open).lower()}" aria-keyshortcuts="{keys}">{said}</button></div>'
        )
        face = Node(f"{key}-face", html, "controls")
    else:
        face = Node(f"{key}-face", f'<div class="af-board-face">{said}</div>')
    inside = list(board.tree.children(block.block_id)) if block.is_group else []
    group = (_list(board, f"{GROUP}{block.block_id}", inside, is_live),) if block.is_group else ()
    css = ["af-board-card", *(["af-board-group"] if block.is_group else []), *(["af-on"] if is_open else [])]
    css += ["af-board-stale"] if block.block_id in board.tree.stale else []
    return Node(key, kind="item", css=" ".join(css), children=(face, *group))


def _state(board: Board, block: Block) -> str:
    return " ".join(f'<span class="af-board-{css}">{escape(said)}</span>' for css, said in states(board, block))


def states(board: Board, block: Block) -> Iterator[tuple[str, str]]:
    """What is said of a block: `("is", "✓ completed")`, `("mark", "! stale")`; unescaped."""
    status = board.tree.status(block.block_id)
    kind = "group, " if block.is_group else ""
    yield "is", f"{_SIGNS[status]} {kind}{status.replace('_', ' ')}"
    if block.block_id in board.tree.stale:
        yield "mark", "! stale"
    if block.sha256 and not block.is_usable:
        yield "mark", "? to be reviewed"
    if block.block_id in board.work:
        yield "work", f"● {_WORK[board.work[block.block_id]]}"


def opened(board: Board, block: Block, place: str) -> tuple[Node, ...]:
    """The head of the block that is open: what is to be noted of it, and what can be done beside changing its text."""
    behind = board.tree.stale.get(block.block_id, ())
    notes = [
        f"Changed since it was written: {', '.join(behind)}." if behind else "",
        f"Depends on: {', '.join(map(board.tree.name, block.depends_on))}." if block.depends_on else "",
        f"It shall say: {block.prompt}" if block.prompt else "",
    ]
    said = "".join(f'<p class="af-quiet">{speak(note)}</p>' for note in notes if note)
    path = f'<div class="af-board-path">{speak(board.tree.path(block.block_id))}</div>' if block.parent else ""
    name = f'<div class="af-board-path">{speak(block.name)}</div>' if block.is_group and not block.parent else path
    head = Node("open-head", f"{name}{said}")
    doing = _doing(block, place, is_stale=bool(behind))
    return head, Node("open-doing", doing, "controls", "af-controls af-board-doing")


def _doing(block: Block, place: str, *, is_stale: bool) -> str:
    which: dict[str, Any] = {"block": block.block_id}
    made = []
    if block.sha256 and block.status != "completed":
        made.append(
            button("Approve", "approve", css="af-primary", name=f"Approve {block.name}", sha256=block.sha256, **which)
        )
    if is_stale:
        made.append(
            button("It still holds", "keep", name=f"It still holds: {block.name}", sha256=block.sha256, **which)
        )
    card = f"{CARD}{block.block_id}"
    moves = [button(sign, "step", name=name, card=card, to=to) for to, (sign, name) in _MOVES.items()]
    inside = f'{"".join(moves)}<span class="af-quiet">{speak(place)}</span>'
    where = f'<span class="af-art-group" role="group" aria-label="Move it">{inside}</span>'
    made.append(button("Settings …", "set_ask", name=f"Name and settings of {block.name}", **which))
    made.append(button("Delete …", "delete_ask", name=f"Delete {block.name}", **which))
    return "".join([*made, where, button("Close", "close", name=f"Close {block.name}")])


def bereft(tree: BlockTree, block_id: str) -> list[list[str]]:
    """What a block takes along when it is deleted, and what rests on that: the ids of both."""
    return [[one.block_id for one in tree.below(block_id)], [one.block_id for one in tree.dependents(block_id)]]


def deleting(board: Board, block: Block) -> Node:
    """What is deleted with a block and what rests on it, and the buttons that do it or leave it."""
    tree = board.tree
    inside, users = seen = bereft(tree, block.block_id)
    told = [f"<p>Delete {speak(repr(block.name))}? Its versions are kept, and it can be brought back.</p>"]
    told += _listed(tree, "Deleted with it:", inside)
    told += _listed(
        tree, "What depends on it, and is stale then if it has a text:", [key for key in users if key not in inside]
    )
    name = f"Delete it: {block.name}"
    buttons = button("Delete it", "delete", css="af-primary", name=name, block=block.block_id, seen=seen)
    html = f'{"".join(told)}<div class="af-controls">{buttons}{button("Leave it", "leave")}</div>'
    return Node("open-deleting", html, "controls", "af-board-ask")


def _listed(tree: BlockTree, what: str, keys: Sequence[str]) -> list[str]:
    if not keys:
        return []
    items = "".join(f"<li>{speak(tree.path(key))}</li>" for key in keys)
    return [f'<p>{what}</p><ul class="af-board-left">{items}</ul>']


def deleted(board: Board) -> tuple[Node, ...]:
    """The blocks that were deleted, each with a button that brings it back."""
    gone = [block for block in board.tree.deleted.values() if block.parent not in board.tree.deleted]
    if not gone:
        return ()
    made = "".join(
        button(block.name, "bring_back", name=f"Bring back {block.name}", block=block.block_id) for block in gone
    )
    inside = Node("deleted-blocks", made, "controls", "af-controls")
    return (Node("deleted", f"Deleted: {count(len(gone), 'block')}, to be brought back", "fold", children=(inside,)),)


def groups_for(tree: BlockTree, block_id: str) -> dict[str, str]:
    """Where a block may stand beside its phases: the ids of the groups, by what a reader is shown."""
    own = {block_id, *(one.block_id for one in tree.below(block_id))}
    groups = {tree.path(one.block_id): one.block_id for one in tree if one.is_group and one.block_id not in own}
    return {AT_TOP: "", **groups}


def grouping(board: Board, block: Block) -> tuple[Node, ...]:
    """What chooses the group that the open block is in, where there are any."""
    known = groups_for(board.tree, block.block_id)
    if len(known) == 1:
        return ()
    now = next((shown for shown, group in known.items() if group == block.parent), AT_TOP)
    field = Field("group", "choice", now, label="In", choices=tuple(known), keep=True)
    data = {
        "act": "group",
        "args": {"block": block.block_id},
        "submit": "Move there",
        "label": f"Which group {block.name} is in",
        "fields": [field.as_json()],
    }
    return (Node("open-group", kind="form", css="af-art-comparing", data=data),)


def taking(labels: Mapping[str, str]) -> Node:
    """The ways to take the document along: buttons for the forms, each with what people call it."""
    made = "".join(
        button(form, "save", name=f"Download the document as {form}: {kind}", form=form)
        for form, kind in labels.items()
    )
    group = '<span class="af-art-group" role="group" aria-label="Download the document">'
    html = f"{group}<span>Download the document</span>{made}</span>"
    return Node("taking-all", html, "controls", "af-controls af-art-controls af-art-taking")
