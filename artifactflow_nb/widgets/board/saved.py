"""Saved output of the board: the columns with their cards, and the texts as collapsible sections below them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from artifactflow_nb.core.text.markdown import escape_with_language
from artifactflow_nb.core.text.panels import scroll_box
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.widgets.artifacts.nodes import ArtifactTexts
from artifactflow_nb.widgets.artifacts.saved import artifact_text
from artifactflow_nb.widgets.board import nodes as board_nodes
from artifactflow_nb.widgets.board.nodes import Board
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import saved_html


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
    texts = board.texts
    versions = {version.artifact_id: version for version in present}
    folds = []
    for block in board.tree:
        version = versions.get(block.block_id)
        if block.sha256 and version is not None:
            path = escape_with_language(board.tree.path(block.block_id))
            label = texts("short_version", number=version.version)
            html = f'<span class="af-title">{path}</span> <span class="af-out">{label}</span>'
            text = artifact_text(f"text-{block.block_id}", version, rendered, texts, with_dates=with_dates)
            folds.append(Node(f"text-{block.block_id}", html, "fold", "af-artifact", children=text))
    columns = scroll_box(saved_html((board_nodes.columns(board, is_live=False),)), "af-board-scroll", texts("phases"))
    hint = [Node("hint", f"<p>{texts('decision_hint')}</p>", css="af-notice")] if request_nodes else []
    head = replace(board_nodes.heading(board), text="\n".join(_lines(board)))
    return (head, *hint, *request_nodes, Node("phases", columns), *folds)


def _lines(board: Board) -> Iterator[str]:
    """Yield the plain text: the blocks by phase, without empty phases except the current one."""
    texts = board.texts
    yield texts("project_named", name=board.info.name)
    if board.requests:
        yield texts("decision_hint")
    for phase in board.info.phases:
        blocks = list(board.tree.blocks_in_phase(phase.name))
        if blocks or phase.name == board.current_phase:
            key = "phase_line_now" if phase.name == board.current_phase else "phase_line"
            yield texts(key, phase=board_nodes.phase_label(board, phase))
        for block in blocks:
            depth = board.tree.path(block.block_id).count("/") + 1
            states = texts.listed(state for _, state in board_nodes.block_states(board, block))
            yield f"{'  ' * depth}- {texts('block_line', name=block.name, states=states)}"
