"""`af.compare`: two runs side by side, and where they part."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from artifactflow_nb.comparing.differences import ArtifactChange, StepDiff
from artifactflow_nb.comparing.figures import Figure, figures
from artifactflow_nb.comparing.pairs import StepPair, pair_steps
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.events import ExecutionMetrics
from artifactflow_nb.frames.columns import ENUM, FLOAT, INT, TEXT
from artifactflow_nb.frames.reading import schema_of
from artifactflow_nb.recordings.values import RecordedRun
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.text.cards import Card, Code, Fold, Rows, Shown, Table, html_text
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.text_diff import NAMES, TextDiff, with_style

if TYPE_CHECKING:
    import pandas as pd


class Comparable(Protocol):
    """A run as it can be compared: a `Run`, or a sealed run that was opened."""

    @property
    def run_id(self) -> str:
        """Its id."""
        ...

    def recording(self) -> RecordedRun:
        """What came to it from outside."""
        ...

    @property
    def artifacts(self) -> Mapping[str, Artifact]:
        """The artifacts that its branch sees, by id."""
        ...

    @property
    def metrics(self) -> ExecutionMetrics:
        """What it cost."""
        ...


def compare(run_a: Comparable, run_b: Comparable) -> "Comparison":
    """Put two runs side by side, of one workbench or of two: answers, artifacts, steps, figures.

    Steps are compared by their places in the runs; the day, which prompts name, is no difference between them. A run
    that goes on still is compared as far as it has come. What was taken out of a sealed run as a secret is not in it.

    Args:
        run_a: A run, or what `af.open_run` gives.
        run_b: The other.

    Errors: `UsageError` for what is no run.
    """
    a, b = _recording("run_a", run_a), _recording("run_b", run_b)
    mine, other = dict(run_a.artifacts), dict(run_b.artifacts)
    changes = {name: ArtifactChange(mine.get(name), other.get(name)) for name in sorted({**mine, **other})}
    return Comparison(
        a, b, MappingProxyType(changes), pair_steps(a, b), figures((a, run_a.metrics), (b, run_b.metrics))
    )


def _recording(name: str, run: Comparable) -> RecordedRun:
    """What came to a run from outside, as it gives it itself."""
    if not hasattr(run, "recording"):
        raise UsageError(f"{name} is {run!r:.200}; pass a run: wb.run(run_id), or af.open_run(path).")
    return run.recording()


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Comparison(Shown):
    """Two runs side by side; as the last value of a cell it shows itself.

    Attributes:
        a: The one run, as it was recorded.
        b: The other.
        artifacts: How each artifact compares that either branch sees, by id.
        pairs: The steps of both, in order; `steps` has them as a frame.
        figures: What both cost; `metrics` has it as a frame.
    """

    a: RecordedRun
    b: RecordedRun
    artifacts: Mapping[str, ArtifactChange]
    pairs: tuple[StepPair, ...]
    figures: tuple[Figure, ...]

    @property
    def answer(self) -> TextDiff:
        """What differs between the answers."""
        return TextDiff(self.a.response or "", self.b.response or "")

    @property
    def is_same(self) -> bool:
        """Whether both took the same steps to the same answer, or error, and the same artifacts; figures may differ."""
        written = all(change.state == "same" for change in self.artifacts.values())
        ended = all(getattr(self.a, name) == getattr(self.b, name) for name in ("flow", "status", "error_type"))
        return self.parted_at is None and self.answer.is_same and written and ended

    @property
    def parted_at(self) -> StepDiff | None:
        """The first step at which they part; None if they never do. What follows may only be its consequence."""
        return next((StepDiff(pair) for pair in self.pairs if pair.outcome != "same"), None)

    def step(self, a: int | None = None, *, b: int | None = None) -> StepDiff:
        """What differs at a step.

        Args:
            a: Its number in the first run, as `run.steps` counts.
            b: Its number in the second one instead.

        Errors: `NotFound` if there is none of this number; `UsageError` unless one number is passed.
        """
        if (a is None) == (b is None):
            raise UsageError("Pass the number of a step: comparison.step(3), or comparison.step(b=3).")
        for pair in self.pairs:
            step = pair.a if b is None else pair.b
            if step is not None and step.number == (a if b is None else b):
                return StepDiff(pair)
        name = f"a has no step {a!r}" if b is None else f"b has no step {b!r}"
        raise NotFound(f"The run {name}. comparison.steps lists the steps of both.")

    @property
    def steps(self) -> "pd.DataFrame":
        """One row per step of either run, causes before effects: a delegating call stands after what it delegated.

        Columns: `step_a` and `step_b` (its number in `run.steps`; NA where a run has none), `path` (the job),
        `agent_name`, `kind` (model, tool, decision), `name`, `outcome` (same, different, only a, only b), `differs`
        (the parts that differ, the cause first; NA if none).
        """
        from artifactflow_nb.plots.columns import typed_frame

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
                "differs": (TEXT, [", ".join(pair.differing) or None for pair in self.pairs]),
            }
        )
        frame.attrs["schema"] = schema_of("compared_steps")
        return frame

    @property
    def metrics(self) -> "pd.DataFrame":
        """One row per figure, named as in `runs_df`: `figure`, `a`, `b`, `difference` (b - a), `ratio` (b / a)."""
        from artifactflow_nb.plots.columns import typed_frame

        frame = typed_frame(
            {
                "figure": (TEXT, [figure.name for figure in self.figures]),
                "a": (FLOAT, [figure.a for figure in self.figures]),
                "b": (FLOAT, [figure.b for figure in self.figures]),
                "difference": (FLOAT, [figure.difference for figure in self.figures]),
                "ratio": (FLOAT, [figure.ratio for figure in self.figures]),
            }
        )
        frame.attrs["schema"] = schema_of("compared_metrics")
        return frame

    # --- faces -------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        parted = self.parted_at
        told = "the same" if self.is_same else f"parted at {parted.title}" if parted else "the same steps"
        return f"Comparison({self.a.question!r:.80}, {count(len(self.pairs), 'step')}, {told})"

    def _card(self) -> Card:
        return self._summary([Fold(title, Code(diff.plain()), is_open) for title, diff, is_open in self._texts()])

    def _repr_html_(self) -> str:
        folds = "".join(
            f"<details{' open' if is_open else ''}><summary>{html_text(title)}</summary>{diff.table()}</details>"
            for title, diff, is_open in self._texts()
        )
        return self._summary([]).html() + with_style(folds)

    def _texts(self) -> Iterator[tuple[str, TextDiff, bool]]:
        """The texts that are shown: the line that each is folded behind, what differs in it, and whether it is open."""
        if self.a.response or self.b.response:
            yield f"Answers: {self._answers}", self.answer, not self.answer.is_same
        for name, change in self.artifacts.items():
            if change.state != "same":
                yield f"{change.newest.title} ({name}): {change.state}", change.diff, False

    @property
    def _answers(self) -> str:
        if self.a.response and self.b.response:
            return "the same" if self.answer.is_same else "different"
        return "only a has one" if self.a.response else "only b has one" if self.b.response else "neither has one"

    def _summary(self, texts: list[Fold]) -> Card:
        parted, differing = self.parted_at, [pair for pair in self.pairs if pair.outcome != "same"]
        is_one = self.a.question == self.b.question
        n_steps = count(len(self.pairs), "step")
        rows: Rows = [
            *([] if is_one else [("question of b", self.b.question)]),
            ("flow", None if self.a.flow == self.b.flow else f"{self.a.flow} → {self.b.flow}"),
            ("status", self.a.status if self.a.status == self.b.status else f"{self.a.status} → {self.b.status}"),
            *([] if self.a.error_message == self.b.error_message else self._errors()),
            ("steps", f"{n_steps}, {_of_them(len(differing))}" if self.pairs else "none"),
            ("parted at", parted.title if parted else None),
            ("answers", self._answers),
            ("artifacts", ", ".join(f"{name}: {change.state}" for name, change in self.artifacts.items())),
        ]
        folds = [*texts, Fold("Metrics", self._figure_table(), is_open=True)]
        if differing:
            folds.append(Fold("Steps that differ", _step_table(differing)))
        note = f"{parted.how} shows what differs there, comparison.steps lists all steps." if parted else ""
        return Card("Comparison", self.a.question, rows, folds, note)

    def _errors(self) -> Rows:
        return [(f"error in {name}", run.error_message) for name, run in zip(NAMES, (self.a, self.b), strict=True)]

    def _figure_table(self) -> Table:
        rows = [
            (one.label, one.told(one.a), one.told(one.b), one.told(one.difference, signed=True)) for one in self.figures
        ]
        return Table(("figure", *NAMES, "difference"), rows)


def _of_them(n_differing: int) -> str:
    if not n_differing:
        return "all the same"
    return f"{n_differing:,} of them differ{'s' if n_differing == 1 else ''}"


def _step_table(pairs: list[StepPair]) -> Table:
    rows = [
        (
            StepDiff(pair).number,
            Code(pair.step.path),
            pair.step.agent,
            f"{pair.step.kind} {pair.step.name}",
            ", ".join(pair.differing) or pair.outcome,
        )
        for pair in pairs
    ]
    return Table.of(("step", "job", "agent", "what", "differs"), rows)
