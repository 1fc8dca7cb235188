"""Side-by-side comparison of two branches of a conversation: metrics, answers and artifacts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from artifactflow_nb.core.text.diff import diff_html
from artifactflow_nb.core.text.format import count, duration, format_time, usd
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.conversation_tree import TreeEntry
from artifactflow_nb.widgets.page.elements import STATUS_MARKS
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.run import labels

_NAMES = ("A", "B")


@dataclass(frozen=True, slots=True)
class BranchSide:
    """One of the two branches.

    Attributes:
        entry: The last message of the branch.
        n_turns: Number of questions on the branch up to that message.
        question: The whole question of that message.
        response: The whole answer; empty if there is none.
        artifacts: The artifacts that the branch sees at that message, by id.
    """

    entry: TreeEntry
    n_turns: int
    question: str
    response: str
    artifacts: Mapping[str, Artifact]


def comparison(left: BranchSide, right: BranchSide) -> tuple[Node, ...]:
    """Build the comparison as nodes; two texts of 100 KB take less than 300 ms."""
    # Trailing white space is normalized: it would show as a changed last line.
    texts = (f"{side.response.rstrip()}\n" for side in (left, right))
    answers = diff_html(*texts, layout="side_by_side", names=_NAMES)
    artifacts = []  # a fold without differences is closed
    for artifact_id in sorted({*left.artifacts, *right.artifacts}):
        old, new = left.artifacts.get(artifact_id), right.artifacts.get(artifact_id)
        if old is not None and new is not None:
            same = old.content == new.content
            change = f"v{old.version}, the same" if same else f"v{old.version} → v{new.version}"
        else:
            change = "only in A" if old else "only in B"
        title = next(artifact.title for artifact in (new, old) if artifact)
        summary = (
            f'<span class="af-title">{escape_with_language(title)}</span> '
            f'<span class="af-out"><code>{escape(artifact_id)}</code> {change}</span>'
        )
        before, after = old.content if old else "", new.content if new else ""
        names = (f"A v{old.version}" if old else "A (none)"), (f"B v{new.version}" if new else "B (none)")
        diff = diff_html(before, after, layout="side_by_side", names=names) if before != after else ""
        content = Node(f"cmp-{artifact_id}-diff", diff or '<p class="af-quiet">Both branches have the same text.</p>')
        artifacts.append(Node(f"cmp-{artifact_id}", summary, "fold", "af-artifact", bool(diff), children=(content,)))
    return (
        Node("cmp-table", _table(left, right), css="af-compare-table"),
        Node(
            "cmp-answers",
            '<span class="af-title">Answers</span>',
            "fold",
            "af-artifact",
            True,
            children=(Node("cmp-answers-diff", answers),),
        ),
        *artifacts,
    )


def _table(left: BranchSide, right: BranchSide) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in _NAMES)
    rows = "".join(
        f'<tr><th scope="row">{name}</th><td>{left_value}</td><td>{right_value}</td></tr>'
        for (name, left_value), (_, right_value) in zip(_facts(left), _facts(right), strict=True)
    )
    return f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _facts(side: BranchSide) -> Iterator[tuple[str, str]]:
    """Yield the rows of the table as name and HTML; both branches yield the same names in the same order."""
    entry = side.entry
    yield "Question", escape_with_language(side.question)
    yield "Status", escape(f"{STATUS_MARKS[entry.status]} {labels.STATUS_LABELS[entry.status]}")
    yield "Questions so far", f"{side.n_turns:,}"
    yield "Tokens", "–" if entry.total_tokens is None else f"{entry.total_tokens:,}"
    yield "Time", "–" if entry.total_ms is None else duration(entry.total_ms)
    yield "Cost", "–" if entry.cost_usd is None else usd(entry.cost_usd)
    yield "Length of the answer", count(len(side.response), "character")
    yield "Artifacts", f"{len(side.artifacts):,}"
    yield "Asked", format_time(entry.created_at)
