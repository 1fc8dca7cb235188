"""The result of `Workbench.refresh`: the changed sources of a run, and the run that brings its report up to date."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, CardTable, Code, Details
from artifactflow_nb.core.text.format import count
from artifactflow_nb.notebook.run import Run
from artifactflow_nb.sources.changes import SourceChange, UncheckedSource


@dataclass(frozen=True, slots=True, repr=False)
class RefreshedRun(CardMixin):
    """The sources of a run compared with their current texts.

    Attributes:
        run: The run.
        changes: The sources that have changed, each with the claims of the report that cite it.
        n_unchanged: Number of sources that have not changed.
        unchecked: The sources that could not be compared.
        follow_up: The run that writes a new version of the report; None if no source has changed.
    """

    run: Run
    changes: tuple[SourceChange, ...]
    n_unchanged: int
    unchecked: tuple[UncheckedSource, ...]
    follow_up: Run | None

    @property
    def summary(self) -> str:
        """The number of changed and unchanged sources and of claims to check, as a sentence."""
        unchecked = f", {len(self.unchecked)} could not be checked" if self.unchecked else ""
        if not self.changes:
            if not self.n_unchanged and not self.unchecked:
                return "Nothing to compare: the run read no source."
            return (
                f"Nothing has changed: {count(self.n_unchanged, 'source')} as before{unchecked}. No model was called."
            )
        n_claims = sum(len(change.claims) for change in self.changes)
        n_removed = sum(change.kind == "removed" for change in self.changes)
        changed = f"{count(len(self.changes) - n_removed, 'source')} changed, {n_removed} removed"
        return f"{changed}, {self.n_unchanged} as before{unchecked}; {count(n_claims, 'claim')} to check."

    def __repr__(self) -> str:
        return f"RefreshedRun({self.run.run_id!r}: {self.summary})"

    def _card(self) -> Card:
        rows: CardRows = [("run", Code(self.run.run_id))]
        rows += [("follow-up run", Code(self.follow_up.run_id))] if self.follow_up else []
        claims = [
            (change.kind, change.title, claim, Code(change.address))
            for change in self.changes
            for claim in change.claims or ("(the report cites it nowhere)",)
        ]
        columns = ("is", "source", "claim that rests on it", "address")
        folds = [Details("Changes", CardTable.from_rows(columns, claims), is_open=True)] if claims else []
        if self.unchecked:
            lines = [(Code(source.address), source.reason) for source in self.unchecked]
            folds.append(Details("Not checked", CardTable.from_rows(("address", "reason"), lines)))
        note = "The follow-up run is the attribute follow_up; display it to watch it." if self.follow_up else ""
        return Card("Refreshed run", self.summary, rows, folds, note)


def changes_text(changes: Iterable[SourceChange], report_ids: Sequence[str]) -> str:
    """Format the changes as an instruction for the follow-up run."""
    lines = ["This question was answered above. Since then, sources of that answer have changed:"]
    for change in changes:
        lines.append(f"- {change.address} ({change.title}) was {change.kind}. Claims that rest on it:")
        lines += [f"  - {claim}" for claim in change.claims] or ["  - none that is marked"]
    reports = " and ".join(f"`{report_id}`" for report_id in report_ids)
    where = f"in the artifact {reports}, which gets a new version" if report_ids else "in a new answer"
    lines.append(
        f"Read the changed sources again. Correct the claims {where}, and leave the rest as it is. A removed source "
        "supports nothing any more. Say in your answer what is different, or that the claims still hold."
    )
    return "\n".join(lines)
