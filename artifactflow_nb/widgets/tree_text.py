"""What the nodes of a conversation's tree say, and the whole tree as Markdown and as plain text."""

import re
from collections.abc import Iterator

from artifactflow_nb.store.tree_reading import TreeEntry
from artifactflow_nb.text.figures import count, duration, moment
from artifactflow_nb.text.markdown import portable_line
from artifactflow_nb.text.width import clip
from artifactflow_nb.widgets import labels
from artifactflow_nb.widgets.tree_folding import Fold
from artifactflow_nb.widgets.tree_layout import Row, TreeLayout

NOTHING = "No questions yet."
QUESTION_COLUMNS = 200
_LINE_COLUMNS = 100
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def one_line(text: str, columns: int = QUESTION_COLUMNS) -> str:
    """The beginning of a text on one line, without the characters that XML does not know."""
    return clip(_NOT_IN_XML.sub(" ", text), columns)


def fold_text(fold: Fold) -> str:
    """`14 questions`, `30 questions on 4 branches`."""
    said = count(len(fold.message_ids), "question")
    return f"{said} on {fold.n_branches} branches" if fold.n_branches > 1 else said


def facts(row: Row, entry: TreeEntry, *, measured: bool = True) -> Iterator[str]:
    """What there is to say about a turn, the most important first; without `measured` what is the same each time."""
    if entry.is_active:
        yield "active"
    if entry.status != "completed":
        yield labels.STATUS_LABELS[entry.status]
    if measured and entry.total_tokens is not None:
        yield count(entry.total_tokens, "token")
    if measured and entry.active_ms is not None:
        yield duration(entry.active_ms)
    if entry.n_artifacts:
        yield count(entry.n_artifacts, "artifact")
    if row.n_siblings > 1:
        yield f"variant {row.sibling} of {row.n_siblings}"
    if measured:
        yield from labels.cost(entry.cost_usd)
        yield moment(entry.created_at)


def label(row: Row, *, measured: bool = True) -> str:
    """All that a node says, for those who hear it."""
    entry = row.what
    if isinstance(entry, Fold):
        return f"{fold_text(entry)} not shown" + (", on the active branch" if entry.is_on_active_branch else "")
    said = [labels.STATUS_LABELS[entry.status]]
    said += [entry.flow] if entry.flow not in {None, "research"} else []
    said += [one_line(entry.error)] if entry.error else []
    said += [fact for fact in facts(row, entry, measured=measured) if fact not in {"active", said[0]}]
    if entry.is_on_active_branch:
        said.append("the next question continues here" if entry.is_active else "on the active branch")
    return f"Question {row.turn}: {one_line(entry.question)} ({', '.join(said)})"


def tree_markdown(layout: TreeLayout, *, measured: bool = True) -> str:
    """The tree as a nested list, a level per column; harmless wherever it is rendered. An arrow begins each branch."""
    begun = {line.lower for line in layout.lines if line.from_lane != line.to_lane}
    lines = ["- *Start*"] if layout.has_start else []
    for place, row in enumerate(layout.rows):
        arrow = "↳ " if place in begun else ""
        said = _line(row, _LINE_COLUMNS, measured).replace("`", "'")
        lines.append(f"{'  ' * row.lane}- {portable_line(arrow + said)}")
    return "\n".join(lines) or f"*{NOTHING}*"


def tree_plain(layout: TreeLayout, *, measured: bool = True) -> str:
    """The tree as lines of text, drawn with the characters of a terminal."""
    graph: dict[int, dict[int, str]] = {}
    for line in layout.lines:
        if line.from_lane != line.to_lane:
            graph.setdefault(line.lower, {})[line.from_lane] = "├─ "
        else:
            for passed in range(line.upper + 1, line.lower):
                graph.setdefault(passed, {}).setdefault(line.from_lane, "│  ")
    lines = ["Start"] if layout.has_start else []
    for place, row in enumerate(layout.rows):
        drawn = "".join(graph.get(place, {}).get(lane, "   ") for lane in range(row.lane))
        lines.append(drawn + _line(row, _LINE_COLUMNS - len(drawn), measured))
    return "\n".join(lines) or NOTHING


def _line(row: Row, columns: int, measured: bool) -> str:
    if isinstance(row.what, Fold):
        return f"… {fold_text(row.what)}"
    asked = f"{labels.MARKS[row.what.status]} {one_line(row.what.question, columns)}"
    return " · ".join([asked, *facts(row, row.what, measured=measured)])
