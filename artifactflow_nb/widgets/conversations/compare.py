"""Comparison of two branches of a conversation: figures, answers and artifacts, in the design of `core.text.panels`."""

from collections.abc import Mapping
from dataclasses import dataclass

from artifactflow_nb.analysis.compare.comparison import ArtifactChange
from artifactflow_nb.analysis.compare.metrics import Figure
from artifactflow_nb.core.language import EnglishText, status_label, translate
from artifactflow_nb.core.text.cards import CardCell
from artifactflow_nb.core.text.diff import TextDiff
from artifactflow_nb.core.text.format import capitalized, format_local_time, translate_time
from artifactflow_nb.core.text.panels import SIDES, comparison_summary, panel_table
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.conversation_tree import TreeEntry
from artifactflow_nb.widgets.page.nodes import Node


@dataclass(frozen=True, slots=True)
class BranchSide:
    """One of the two branches.

    Attributes:
        entry: The last message of the branch.
        n_turns: Number of questions on the branch up to the last message.
        question: The whole question of the last message.
        response: The whole answer, or an empty string.
        artifacts: The artifacts that the branch sees at the last message, by id.
    """

    entry: TreeEntry
    n_turns: int
    question: str
    response: str
    artifacts: Mapping[str, Artifact]

    @property
    def figures(self) -> Mapping[str, float | None]:
        """Figures by the names of `Figure`."""
        return {
            "total_tokens": self.entry.total_tokens,
            "total_duration_ms": self.entry.total_ms,
            "cost_usd": self.entry.cost_usd,
            "n_questions": self.n_turns,
            "n_response_chars": len(self.response),
            "n_artifacts": len(self.artifacts),
        }


_FIGURES: Mapping[str, EnglishText] = {
    "total_tokens": "tokens",
    "total_duration_ms": "time",
    "cost_usd": "cost",
    "n_questions": "questions so far",
    "n_response_chars": "characters of the answer",
    "n_artifacts": "artifacts",
}


def comparison(a: BranchSide, b: BranchSide) -> tuple[Node, ...]:
    """Build the comparison as nodes; two texts of 100 KB take less than 300 ms."""
    # Trailing white space is normalized, since a difference would show as a changed last line.
    answers = TextDiff(a.response.rstrip(), b.response.rstrip())
    folds = [_fold("cmp-answers", comparison_summary(translate("Answers"), ""), answers.table(), is_open=True)]
    for artifact_id in sorted({*a.artifacts, *b.artifacts}):
        change = ArtifactChange(a.artifacts.get(artifact_id), b.artifacts.get(artifact_id))
        summary = comparison_summary(change.newest.title, change.versions, code=artifact_id)
        is_open = not change.diff.is_same
        same = f'<p class="af-quiet">{translate("Both branches have the same text.")}</p>'
        body = change.diff.table() if is_open else same
        folds.append(_fold(f"cmp-{artifact_id}", summary, body, is_open=is_open))
    rows: list[list[CardCell]] = []
    if a.question != b.question:
        rows.append([translate("question"), a.question, b.question, ""])
    rows.append([translate("status"), *(capitalized(status_label(side.entry.status)) for side in (a, b)), ""])
    for name, value in a.figures.items():
        texts = Figure(name, value, b.figures[name]).texts
        rows.append([translate(_FIGURES[name]), *map(translate_time, texts)])
    rows.append([translate("asked"), *(format_local_time(side.entry.created_at) for side in (a, b)), ""])
    table = panel_table(("", *SIDES, translate("difference")), rows, translate("Comparison of two branches"))
    return (Node("cmp-table", table), *folds)


def _fold(key: str, summary: str, body: str, *, is_open: bool) -> Node:
    return Node(key, summary, "fold", "af-artifact", is_open, children=(Node(f"{key}-diff", body),))
