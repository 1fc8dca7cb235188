"""Saved output of the board: the columns with their cards, and the texts as folds below them."""

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
from artifactflow_nb.widgets.run.saved import DECISION_HINT


def saved_board(
    board: Board,
    present: Sequence[Artifact],
    texts: ArtifactTexts,
    request_nodes: Sequence[Node] = (),
    *,
    with_dates: bool,
) -> tuple[Node, ...]:
    """Build the nodes of the saved output.

    Args:
        board: The content of the board.
        present: The current versions of its texts.
        texts: The rendered texts of these versions.
        request_nodes: The cards of open approval requests.
        with_dates: Show when versions were written; without dates the output of equal projects is equal.
    """
    versions = {version.artifact_id: version for version in present}
    folds = []
    for block in board.tree:
        version = versions.get(block.block_id)
        if block.sha256 and version is not None:
            path = escape_with_language(board.tree.path(block.block_id))
            html = f'<span class="af-title">{path}</span> <span class="af-out">v{version.version}</span>'
            text = artifact_text(f"text-{block.block_id}", version, texts, with_dates=with_dates)
            folds.append(Node(f"text-{block.block_id}", html, "fold", "af-artifact", children=text))
    columns = scroll_box(saved_html((board_nodes.columns(board, is_live=False),)), "af-board-scroll", "Phases")
    hint = [Node("hint", f"<p>{DECISION_HINT}</p>", css="af-notice")] if request_nodes else []
    head = replace(board_nodes.heading(board), text="\n".join(_lines(board)))
    return (head, *hint, *request_nodes, Node("phases", columns), *folds)


def _lines(board: Board) -> Iterator[str]:
    """Yield the plain text: the blocks by phase, without empty phases except the current one."""
    yield f"Project {board.info.name}"
    if board.requests:
        yield DECISION_HINT
    for phase in board.info.phases:
        blocks = list(board.tree.blocks_in_phase(phase.name))
        if blocks or phase.name == board.info.phase:
            yield f"{board_nodes.phase_label(board, phase)}{' (now)' if phase.name == board.info.phase else ''}:"
        for block in blocks:
            depth = board.tree.path(block.block_id).count("/") + 1
            states = ", ".join(state for _, state in board_nodes.block_states(board, block))
            yield f"{'  ' * depth}- {block.name}: {states}"
