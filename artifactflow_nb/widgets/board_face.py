"""What the board leaves in a saved notebook: the columns with their cards, and the texts as folds below."""

from collections.abc import Iterator, Sequence

from artifactflow_nb.blocks import Block
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.text.cards import markdown_text, visible
from artifactflow_nb.text.markdown import escape, speak
from artifactflow_nb.widgets import board_nodes
from artifactflow_nb.widgets.artifact_nodes import origin
from artifactflow_nb.widgets.artifact_texts import ArtifactTexts
from artifactflow_nb.widgets.board_nodes import Board
from artifactflow_nb.widgets.frozen import HOW_TO_DECIDE, framed
from artifactflow_nb.widgets.pieces import scrolling
from artifactflow_nb.widgets.tree import Node, static_html
from artifactflow_nb.widgets.view import Face

CSS = "af-board"
GONE = "This project is not there any more."


def board_face(
    board: Board | None, present: Sequence[Artifact], texts: ArtifactTexts, asks: Sequence[Node] = (), *, dated: bool
) -> Face:
    """The face.

    Args:
        board: What the board shows; None for a project that is gone.
        present: The present versions of its texts.
        texts: The same, rendered.
        asks: The cards of what a run asks of the person.
        dated: Say when versions were written; without, the face is the same each time.
    """
    if board is None:
        return {"text/plain": GONE, "text/markdown": GONE, "text/html": framed(f"<p>{GONE}</p>", css=CSS)}
    found = {artifact.artifact_id: artifact for artifact in present}
    written = [(block, found[block.block_id]) for block in board.tree if block.sha256 and block.block_id in found]
    return {
        "text/plain": visible("\n".join(_plain(board))),
        "text/markdown": "\n\n".join(
            [*_markdown(board), *(_markdown_fold(board, *one, texts, dated) for one in written)]
        ),
        "text/html": _html(board, written, texts, asks, dated),
    }


def _lines(board: Board) -> Iterator[tuple[str, list[Block]]]:
    """Each phase that has blocks or is the present one, with its blocks."""
    for phase in board.head.phases:
        blocks = list(board.tree.of_phase(phase.name))
        if blocks or phase.name == board.head.phase:
            yield board_nodes.phase_label(phase) + (" (now)" if phase.name == board.head.phase else ""), blocks


def _said(board: Board, block: Block) -> str:
    depth = board.tree.path(block.block_id).count("/")
    states = ", ".join(said for _, said in board_nodes.states(board, block))
    return f"{'  ' * depth}- {block.name}: {states}"


def _plain(board: Board) -> Iterator[str]:
    yield f"Project {board.head.name}"
    if board.asked:
        yield HOW_TO_DECIDE
    for label, blocks in _lines(board):
        yield f"{label}:"
        yield from (f"  {_said(board, block)}" for block in blocks)


def _markdown(board: Board) -> Iterator[str]:
    yield f"**Project** {markdown_text(board.head.name)}"
    if board.asked:
        yield f"*{HOW_TO_DECIDE}*"
    for label, blocks in _lines(board):
        yield f"**{markdown_text(label)}**"
        if blocks:
            yield "\n".join(_markdown_line(_said(board, block)) for block in blocks)


def _markdown_line(said: str) -> str:
    mark, text = said.split("- ", 1)
    return f"{mark}- {markdown_text(text)}"


def _markdown_fold(board: Board, block: Block, version: Artifact, texts: ArtifactTexts, dated: bool) -> str:
    name = f"{escape(board.tree.path(block.block_id))} ({escape(origin(version, dated=dated))})"
    return f"<details><summary>{name}</summary>\n\n{texts.of(version).markdown}\n\n</details>"


def _html(
    board: Board,
    written: Sequence[tuple[Block, Artifact]],
    texts: ArtifactTexts,
    asks: Sequence[Node],
    dated: bool,
) -> str:
    folds = [_fold(board, block, version, texts, dated) for block, version in written]
    columns = scrolling(static_html((board_nodes.columns(board, is_live=False),)), "af-board-scroll", "Phases")
    hint = (Node("hint", f"<p>{HOW_TO_DECIDE}</p>", css="af-notice"),) if asks else ()
    nodes = (board_nodes.heading(board), *hint, *asks, Node("phases", columns), *folds)
    return framed(static_html(nodes), "board.css", css=CSS)


def _fold(board: Board, block: Block, version: Artifact, texts: ArtifactTexts, dated: bool) -> Node:
    key = f"text-{block.block_id}"
    summary = (
        f'<span class="af-title">{speak(board.tree.path(block.block_id))}</span> '
        f'<span class="af-out">v{version.version}</span>'
    )
    inside = (
        Node(f"{key}-origin", escape(origin(version, dated=dated)), css="af-quiet"),
        Node(f"{key}-text", texts.of(version).html, css="af-md af-page"),
    )
    return Node(key, summary, "fold", "af-artifact", children=inside)
