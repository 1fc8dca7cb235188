"""What the tree leaves in a saved notebook: the drawing, and below it the questions with their answers, folded.

Where a page takes the drawing out, an image of it stands there, which has the drawing's own style in it, and a list.

Answers are long and a notebook is read over the network, so those that were given last are shown whole, as far as
60,000 characters go, and of the others the beginning.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from artifactflow_nb.plots.still import PREFERS_DARK, drawn, image
from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.store.tree_reading import TreeEntry
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.markdown import MarkdownRenderer, escape, portable, portable_line, speak
from artifactflow_nb.widgets import labels
from artifactflow_nb.widgets.assets import stylesheet
from artifactflow_nb.widgets.frozen import framed
from artifactflow_nb.widgets.tree import Node, static_html
from artifactflow_nb.widgets.tree_drawing import tree_svg
from artifactflow_nb.widgets.tree_folding import Fold
from artifactflow_nb.widgets.tree_layout import TreeLayout
from artifactflow_nb.widgets.tree_text import facts, label, one_line, tree_markdown, tree_plain
from artifactflow_nb.widgets.view import Face

ANSWER_CHARS = 60_000
NO_CONVERSATION = "No conversations yet."
_STYLE = "tree_view.css"
_RULE = re.compile(r"(@[^{}]+)\{((?:[^{}]*\{[^{}]*\})*)\s*\}|([^{}]+)(\{[^{}]*\})")
_VARIABLE = re.compile(r"--af-[\w-]+:[^;}]+;")
_DRAWN = re.compile(r"\.af-branches(?!-)")
_LIVE = re.compile(r"\[tabindex|:hover|:focus|\.af-hit|\.af-selected|\.af-running \.af-dot")
_CUT = "Shortened: the rest of the answer is left out here; wb.tree() shows it."


@dataclass(frozen=True, slots=True)
class _Turn:
    """A message that has a row, as it is told below the drawing."""

    entry: TreeEntry
    question: str
    answer: str
    is_cut: bool
    about: str

    @property
    def nothing(self) -> str:
        """What is said in the place of an answer."""
        return self.entry.error or f"{labels.STATUS_LABELS[self.entry.status]}; there is no answer."


def empty_face(css: str) -> Face:
    """The face where nothing was asked yet."""
    html = framed(f'<p class="af-quiet">{NO_CONVERSATION}</p>', css=css)
    return {"text/plain": NO_CONVERSATION, "text/markdown": f"*{NO_CONVERSATION}*", "text/html": html}


def tree_face(
    conversation: Conversation,
    layout: TreeLayout,
    texts: Mapping[str, tuple[str, str]],
    renderer: MarkdownRenderer,
    *,
    css: str = "",
    measured: bool = True,
) -> Face:
    """The face of a conversation.

    Args:
        conversation: Which.
        layout: Its tree.
        texts: The whole question and answer of each message that has a row.
        renderer: Renders answers, and remembers those that it has rendered.
        css: Class names of the root.
        measured: Show tokens, costs and times in the drawing.
    """
    turns = _turns(layout, texts)
    title = Node("title", f"<strong>{speak(conversation.title)}</strong>", css="af-question")
    drawing = Node("drawing", _drawing(layout, measured=measured), css="af-branches-box")
    told = Node("told", kind="box", css="af-written", children=tuple(_fold(turn, renderer) for turn in turns))
    parts = [f"**{portable_line(conversation.title)}**", tree_markdown(layout, measured=measured)]
    return {
        "text/plain": f"{conversation.title}\n\n{tree_plain(layout, measured=False)}",
        "text/markdown": "\n\n".join([*parts, *map(_details, turns)]),
        "text/html": framed(static_html((title, drawing, told)), _STYLE, css=css),
    }


def _turns(layout: TreeLayout, texts: Mapping[str, tuple[str, str]]) -> Sequence[_Turn]:
    """The messages that have a row, from top to bottom, with as much of their answers as there is room for."""
    rows = [(row, row.what) for row in layout.rows if isinstance(row.what, TreeEntry)]
    left = ANSWER_CHARS
    turns: dict[str, _Turn] = {}
    for row, entry in sorted(rows, key=lambda one: one[1].created_at, reverse=True):
        question, answer = texts.get(entry.message_id, (entry.question, entry.response or ""))
        is_cut = len(answer) > left
        left -= 0 if is_cut else len(answer)
        said = f"{(entry.response or '').rstrip()} …" if is_cut else answer
        about = " · ".join(facts(row, entry, measured=False))
        turns[entry.message_id] = _Turn(entry, question, said, is_cut, about)
    return [turns[entry.message_id] for _, entry in rows]


def _fold(turn: _Turn, renderer: MarkdownRenderer) -> Node:
    said = one_line(turn.question)
    summary = (
        f'{labels.MARKS[turn.entry.status]} <span class="af-title">{speak(said)}</span> '
        f'<span class="af-out">{escape(turn.about)}</span>'
    )
    html = renderer.html(turn.answer) if turn.answer else f"<p><em>{escape(turn.nothing)}</em></p>"
    whole = f'<p class="af-quiet">{speak(turn.question)}</p>' if said != turn.question else ""
    cut = f'<p class="af-quiet">{_CUT}</p>' if turn.is_cut else ""
    inside = Node("answer", whole + html + cut, css="af-md")
    return Node(turn.entry.message_id, summary, "fold", "af-artifact", children=(inside,))


def _details(turn: _Turn) -> str:
    summary = f"{labels.MARKS[turn.entry.status]} {escape(one_line(turn.question))}"
    answer = portable(turn.answer) if turn.answer else f"*{portable_line(turn.nothing)}*"
    cut = f"\n\n*{_CUT}*" if turn.is_cut else ""
    return f"<details><summary>{summary}</summary>\n\n{answer}{cut}\n\n</details>"


# --- the drawing where pages take it out -----------------------------------------------------------------------------


def _drawing(layout: TreeLayout, *, measured: bool) -> str:
    """The drawing; else an image of it, with what it says as a list."""
    svg = tree_svg(layout, measured=measured)
    n = sum(len(row.what.message_ids) if isinstance(row.what, Fold) else 1 for row in layout.rows)
    n_branches = 1 + sum(line.from_lane != line.to_lane for line in layout.lines)
    told = f"Tree of {count(n, 'question')} on {count(n_branches, 'branch')}; the list below says the same."
    listed = f"<details><summary>The tree as a list</summary>{_outline(layout, measured=measured)}</details>"
    return drawn(svg, image(svg, told, style=_image_style(), width="100%") + listed)


def _outline(layout: TreeLayout, *, measured: bool) -> str:
    """The tree as lists in lists, a level per column; a branch stands below the question that it follows."""
    pieces, depth = (["<ul><li>Start"], 1) if layout.has_start else ([], 0)
    for row in layout.rows:
        level = row.lane + 1
        pieces.append("</li></ul>" * (depth - level) + ("</li>" if depth >= level else "") + "<ul>" * (level - depth))
        pieces.append(f"<li>{speak(label(row, measured=measured))}")
        depth = level
    return "".join([*pieces, "</li></ul>" * depth])


@cache
def _image_style() -> str:
    """What the page's style says of a drawing, for one that stands by itself."""
    return " ".join(_image_rules(stylesheet(_STYLE)))


def _image_rules(css: str) -> Iterator[str]:
    for query, within, selector, rule in _RULE.findall(css):
        if query and (inside := " ".join(_image_rules(within))):
            yield f"{query.replace('@container', '@media')}{{ {inside} }}"
        elif _DRAWN.search(selector) and not _LIVE.search(selector):
            yield f"{selector.replace('.af-run ', '').strip()} {rule}"
        elif selector.strip() == ".af-run":
            yield f":root {{ {' '.join(_VARIABLE.findall(rule))} }}"
        elif selector.strip() == '[data-jp-theme-light="false"] .af-run':
            yield f"{PREFERS_DARK} {{ :root {{ {' '.join(_VARIABLE.findall(rule))} }} }}"
