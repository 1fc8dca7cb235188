"""`af.compare`: the differences between two runs, and the first step at which they diverge.

The values have notebook representations: a comparison, an artifact's change and a step's difference render as cards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol

from artifactflow_nb.analysis.compare.alignment import StepDiff, pair_steps
from artifactflow_nb.analysis.compare.metrics import Figure, figures
from artifactflow_nb.analysis.frames.reading import schema_name
from artifactflow_nb.core.events import ExecutionMetrics
from artifactflow_nb.core.language import agent_label
from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, CardTable, Code, Details, cell_html
from artifactflow_nb.core.text.diff import DiffMixin, TextDiff
from artifactflow_nb.core.text.format import count
from artifactflow_nb.core.text.panels import (
    SIDES,
    ComparisonRow,
    comparison_heading,
    comparison_summary,
    comparison_table,
    panel_fold,
    panel_html,
    panel_table,
)
from artifactflow_nb.errors import NotFound, UsageError, brief
from artifactflow_nb.recording.rows import RunRows
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.frames import ENUM, FLOAT, INT, TEXT

if TYPE_CHECKING:
    import pandas as pd


_STEP_COLUMNS = ("step", "job", "agent", "what", "differs")

ArtifactState = Literal["same", "changed", "only a", "only b"]


@dataclass(frozen=True, slots=True, repr=False)
class ArtifactChange(DiffMixin):
    """An artifact in two runs.

    Attributes:
        a: Version in the first run; None if the run has no such artifact.
        b: Version in the second run; None if the run has no such artifact.
    """

    a: Artifact | None
    b: Artifact | None

    @property
    def newest(self) -> Artifact:
        """Version of the second run, or else of the first run."""
        newest = self.b or self.a
        if newest is None:
            raise ValueError("Both versions of the artifact are None; a change needs at least one.")
        return newest

    @property
    def state(self) -> ArtifactState:
        """`same`, `changed`, `only a` or `only b`, by text and title."""
        if self.a is None or self.b is None:
            return "only a" if self.b is None else "only b"
        is_same = (self.a.content, self.a.title) == (self.b.content, self.b.title)
        return "same" if is_same else "changed"

    @property
    def versions(self) -> str:
        """The versions and whether they differ: `v1 → v2`, `v1, the same` or `only in a`."""
        if self.a is None or self.b is None:
            return f"only in {'a' if self.b is None else 'b'}"
        numbers = " → ".join(dict.fromkeys(f"v{version.version}" for version in (self.a, self.b)))
        return f"{numbers}, the same" if self.state == "same" else numbers

    @property
    def diff(self) -> TextDiff:
        """Difference of the texts; a missing artifact counts as empty."""
        names = _version_label("a", self.a), _version_label("b", self.b)
        return TextDiff(self.a.content if self.a else "", self.b.content if self.b else "", names)

    def __repr__(self) -> str:
        return f"ArtifactChange({self.newest.artifact_id!r}, {self.state!r})"


def _version_label(name: str, artifact: Artifact | None) -> str:
    return f"{name} v{artifact.version}" if artifact else f"{name} (none)"


class Comparable(Protocol):
    """A run that can be compared: a `Run`, or an opened sealed run."""

    @property
    def run_id(self) -> str:
        """Id of the run."""
        ...

    def rows(self) -> RunRows:
        """Return the stored rows of the run and of its subruns."""
        ...

    @property
    def artifacts(self) -> Mapping[str, Artifact]:
        """Artifacts on the branch of the run, by id."""
        ...

    @property
    def metrics(self) -> ExecutionMetrics:
        """Time, tokens and cost."""
        ...


def compare(run_a: Comparable, run_b: Comparable) -> "Comparison":
    """Compare two runs, of one workbench or of two workbenches: answers, artifacts, steps, figures.

    Steps are matched by their position in the runs. The current time in prompts is ignored. An unfinished run is
    compared up to its latest step. Redacted secrets of a sealed run are compared in their redacted form.

    Args:
        run_a: The first run: a `Run`, or the result of `af.open_run`.
        run_b: The second run.

    Errors: `UsageError` if an argument is not a run.
    """
    for name, run in (("run_a", run_a), ("run_b", run_b)):
        if not hasattr(run, "rows"):
            raise UsageError(f"{name} is {brief(run)}; pass a run: wb.run(run_id), or af.open_run(path).")
    a, b = run_a.rows(), run_b.rows()
    artifacts_a, artifacts_b = dict(run_a.artifacts), dict(run_b.artifacts)
    changes = {
        artifact_id: ArtifactChange(artifacts_a.get(artifact_id), artifacts_b.get(artifact_id))
        for artifact_id in sorted({**artifacts_a, **artifacts_b})
    }
    return Comparison(
        a, b, MappingProxyType(changes), pair_steps(a, b), figures((a, run_a.metrics), (b, run_b.metrics))
    )


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Comparison(CardMixin):
    """Comparison of two runs, with a card as its notebook representation.

    Attributes:
        a: Rows of the first run.
        b: Rows of the second run.
        artifacts: Change of each artifact on either branch, by id.
        pairs: Steps of both runs, paired and in order; `steps` is the frame of the pairs.
        figures: Time, tokens and cost of both runs; `metrics` is the frame of the figures.
    """

    a: RunRows
    b: RunRows
    artifacts: Mapping[str, ArtifactChange]
    pairs: tuple[StepDiff, ...]
    figures: tuple[Figure, ...]

    @property
    def answer(self) -> TextDiff:
        """Difference between the answers."""
        return TextDiff(_answer(self.a), _answer(self.b))

    @property
    def is_same(self) -> bool:
        """Whether both runs have equal steps, answers or errors, and artifacts; figures may differ."""
        same_artifacts = all(change.state == "same" for change in self.artifacts.values())
        same_outcome = all(self.a.run[name] == self.b.run[name] for name in ("flow", "status", "error_type"))
        return self.first_difference is None and self.answer.is_same and same_artifacts and same_outcome

    @property
    def first_difference(self) -> StepDiff | None:
        """First step that differs, or None; later differences may follow from this step.

        For a run and its fork, this is the step that the fork changed, if that step differs.
        """
        differing = [pair for pair in self.pairs if pair.outcome != "same"]
        return min(differing, key=lambda pair: not pair.is_fork_point) if differing else None

    def step(self, a: int | None = None, *, b: int | None = None) -> StepDiff:
        """Return the difference at a step.

        Args:
            a: Number of the step in `steps` of the first run.
            b: Number of the step in `steps` of the second run, instead of `a`.

        Errors: `NotFound` for an unknown number; `UsageError` unless exactly one number is passed.
        """
        if (a is None) == (b is None):
            raise UsageError("Pass the number of a step: comparison.step(3), or comparison.step(b=3).")
        for pair in self.pairs:
            step = pair.a if b is None else pair.b
            if step is not None and step.number == (a if b is None else b):
                return pair
        name = f"a has no step {a!r}" if b is None else f"b has no step {b!r}"
        raise NotFound(f"The run {name}. comparison.steps lists the steps of both runs.")

    @property
    def steps(self) -> "pd.DataFrame":
        """One row per step of either run, causes before effects; a delegating call follows the steps of its job.

        Columns: `step_a` and `step_b` (number in `run.steps`; NA if the run has no such step), `path` (the job),
        `agent_name`, `kind` (model, tool, decision), `name`, `outcome` (same, different, only a, only b), `differs`
        (parts that differ, causes before effects; NA if none).
        """
        from artifactflow_nb.analysis.plots.frame_columns import typed_frame

        steps = [pair.step for pair in self.pairs]
        frame = typed_frame(
            {
                "step_a": (INT, [pair.a.number if pair.a else None for pair in self.pairs]),
                "step_b": (INT, [pair.b.number if pair.b else None for pair in self.pairs]),
                "path": (TEXT, [step.path for step in steps]),
                "agent_name": (ENUM, [step.agent for step in steps]),
                "kind": (ENUM, [step.kind for step in steps]),
                "name": (TEXT, [step.name for step in steps]),
                "outcome": (ENUM, [pair.outcome for pair in self.pairs]),
                "differs": (TEXT, [", ".join(pair.differing_parts) or None for pair in self.pairs]),
            }
        )
        frame.attrs["schema"] = schema_name("compared_steps")
        return frame

    @property
    def metrics(self) -> "pd.DataFrame":
        """One row per figure, named as in `runs_df`: `figure`, `a`, `b`, `difference` (b - a), `ratio` (b / a)."""
        from artifactflow_nb.analysis.plots.frame_columns import typed_frame

        frame = typed_frame(
            {
                "figure": (TEXT, [figure.name for figure in self.figures]),
                "a": (FLOAT, [figure.a for figure in self.figures]),
                "b": (FLOAT, [figure.b for figure in self.figures]),
                "difference": (FLOAT, [figure.difference for figure in self.figures]),
                "ratio": (FLOAT, [figure.ratio for figure in self.figures]),
            }
        )
        frame.attrs["schema"] = schema_name("compared_metrics")
        return frame

    # --- representations ---------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        first = self.first_difference
        result = "the same" if self.is_same else f"first difference at {first.title}" if first else "the same steps"
        return f"Comparison({self.a.run['question']!r:.80}, {count(len(self.pairs), 'step')}, {result})"

    def _card(self) -> Card:
        first = self.first_difference
        a, b = self.a.run, self.b.run
        errors: CardRows = []
        if a["error_message"] != b["error_message"]:
            errors = [("error in a", a["error_message"]), ("error in b", b["error_message"])]
        rows: CardRows = [
            ("question of b", None if a["question"] == b["question"] else b["question"]),  # a is in the title
            ("flow", None if a["flow"] == b["flow"] else f"{a['flow']} → {b['flow']}"),
            ("status", a["status"] if a["status"] == b["status"] else f"{a['status']} → {b['status']}"),
            *errors,
            ("steps", self._steps),
            ("first difference", first.title if first else None),
            ("answers", self._answers),
            ("artifacts", ", ".join(f"{name}: {change.state}" for name, change in self.artifacts.items())),
        ]
        metrics = CardTable(("figure", *SIDES, "difference"), [figure.row for figure in self.figures])
        folds = [Details("Metrics", metrics, is_open=True)]
        note = f"{first.call_hint} shows what differs there, comparison.steps lists all steps." if first else ""
        return Card("Comparison", a["question"], rows, folds, note)

    def _repr_html_(self) -> str:
        a, b = self.a.run, self.b.run
        facts = [
            ComparisonRow(label, a[name], b[name])
            for label, name in (("question", "question"), ("flow", "flow"), ("error", "error_message"))
            if a[name] != b[name]
        ]
        rows = [*facts, ComparisonRow("status", a["status"], b["status"]), *(figure.row for figure in self.figures)]
        first = self.first_difference
        lines = [f"{self._steps}."] if self.pairs else []
        lines += [f"First difference: {first.title}. {first.call_hint} shows it."] if first else []
        body = comparison_heading("two runs", a["question"]) + comparison_table(rows)
        body += f'<p class="af-quiet">{cell_html(" ".join(lines))}</p>'
        if _answer(self.a) or _answer(self.b):
            summary = comparison_summary("Answers", self._answers)
            body += panel_fold(summary, self.answer.table(), is_open=not self.answer.is_same)
        for name, change in self.artifacts.items():
            if change.state != "same":
                summary = comparison_summary(change.newest.title, change.versions, code=name)
                body += panel_fold(summary, change.diff.table())
        if differing := self._differing_steps:
            table = panel_table(_STEP_COLUMNS, differing.rows, "Steps that differ")
            body += panel_fold(comparison_summary("Steps that differ", ""), table + differing.more_text)
        return panel_html(body)

    @property
    def _steps(self) -> str:
        """The number of steps, and the number of differing steps."""
        n_differing = sum(pair.outcome != "same" for pair in self.pairs)
        verb = "differs" if n_differing == 1 else "differ"
        n_steps = count(len(self.pairs), "step") if self.pairs else "none"
        return n_steps + (f", {n_differing:,} of them {verb}" if n_differing else ", all the same" * bool(self.pairs))

    @property
    def _differing_steps(self) -> CardTable | None:
        """A row for each step that differs, or None."""
        rows = [
            (
                pair.number,
                Code(pair.step.path),
                agent_label(pair.step.agent),
                f"{pair.step.kind} {pair.step.name}",
                ", ".join(pair.differing_parts) or pair.outcome,
            )
            for pair in self.pairs
            if pair.outcome != "same"
        ]
        return CardTable.from_rows(_STEP_COLUMNS, rows) if rows else None

    @property
    def _answers(self) -> str:
        has_a, has_b = bool(_answer(self.a)), bool(_answer(self.b))
        if has_a and has_b:
            return "the same" if self.answer.is_same else "different"
        return "only a has one" if has_a else "only b has one" if has_b else "neither has one"


def _answer(rows: RunRows) -> str:
    return str(rows.message["response"] or "")
