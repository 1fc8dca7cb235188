"""`GradedStudy`: the methods of a study that grade its answers and compare its levels."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import orjson

from artifactflow_nb.analysis.plots.canvas import (
    BLUE,
    VERMILLION,
    canvas,
    finish,
    message_only,
    rows_axis,
    write_beside,
)
from artifactflow_nb.core.language import translate
from artifactflow_nb.core.text.format import usd
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.plugins.graders import ABSTAINED, FAILED, GRADED
from artifactflow_nb.plugins.studies.tables import GRADE_FRAME, StudyRow

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from artifactflow_nb.plugins.graders.statistics import Level
    from artifactflow_nb.plugins.studies.grading import GradeStore
    from artifactflow_nb.widgets.page.panel import Panel

QUESTION = "question_n"
_FIRST_COLUMNS = ("cell", QUESTION, "question")
_COLUMNS = ("repeat", "run_id", "grader", "score", "outcome", "evidence", "judge", "cost_usd", "graded_at")
_LENGTH_CORRELATION = 0.7
"""From this correlation on, the scores of a judge follow the length of the answers."""


class GradedStudy(ABC):
    """Grades of a study; `Study` has the study's name, workbench and frame."""

    _workbench: Any

    @property
    @abstractmethod
    def _stored(self) -> StudyRow:
        """The row of the study."""

    @property
    @abstractmethod
    def df(self) -> "pd.DataFrame":
        """One row per cell."""

    @property
    def _factors(self) -> list[str]:
        return list(self._stored.spec["vary"])

    @property
    def _grades(self) -> "GradeStore":
        from artifactflow_nb.plugins.studies.grading import GradeStore

        return GradeStore(self._workbench._thread, self._stored.study_id)  # noqa: SLF001 - a part of its workbench

    def grade(self, *graders: Any) -> "pd.DataFrame":
        """Grade the ended cells, wait, and return `grades_df`; only what has changed is graded again.

        Args:
            graders: Values of `af.graders`, or functions that take a row of `df` as a mapping and return a score from 0
                to 1, a bool, None for an abstention, or a pair of score and evidence.

        Errors: `UsageError` for a column that is missing, and for a judge that is the model of an answer.
        """
        from artifactflow_nb.plugins.studies.grading import grade_cells

        grade_cells(self._grades, self.df, self._workbench.claims_df, *graders)
        return self.grades_df

    @property
    def grades_df(self) -> "pd.DataFrame":
        """One row per cell and grader: the score from 0 to 1, the outcome and the evidence."""
        import pandas as pd

        frame: pd.DataFrame = self._workbench._load(GRADE_FRAME, study=self._stored.name)  # noqa: SLF001
        frame = frame.rename(columns={"grade": "score"})
        levels = pd.DataFrame([orjson.loads(text) for text in frame["factors_json"]], frame.index, self._factors)
        return pd.concat([frame[[*_FIRST_COLUMNS]], levels, frame[[*_COLUMNS]]], axis=1)

    def compare(self, factor: str, grader: str | None = None) -> "pd.DataFrame":
        """Compare each pair of levels of a factor by each grader, or by one: a row for each, paired by question.

        Columns: the levels `a` and `b`, their mean scores, `difference` (a minus b) with the 95 per cent interval from
        `low` to `high`, `n` questions, `wins`, `ties`, `losses`, `note`; `abstained_a` and `abstained_b` of `answers_a`
        and `answers_b`, with Wilson's interval of the shares; `failed` grades; differences of cost and time. The
        intervals hold for one pair each: of 20 pairs without a difference, one has an interval without zero.

        Errors: `UsageError` for a factor that does not vary, and for an unknown grader.
        """
        import pandas as pd

        cells, grades = self._frames(factor)
        names = _known_graders(grades, None if grader is None else [grader])
        others = [name for name in self._factors if name != factor]
        pairs = product(names, combinations(dict.fromkeys(cells[factor]), 2))
        rows = [compare_levels(cells, grades[grades["grader"] == name], others, factor, *pair) for name, pair in pairs]
        return pd.DataFrame(rows)

    def _frames(self, factor: str) -> "list[pd.DataFrame]":
        """Return cells and grades with levels, graders and outcomes as texts, which can be grouped."""
        if factor not in self._factors:
            raise UsageError(
                f"{brief(factor)} does not vary in this study. Factors: {', '.join(self._factors) or 'none'}."
            )
        names, frames = [*self._factors, "grader", "outcome"], (self.df, self.grades_df)
        return [frame.assign(**{name: frame[name].map(str) for name in names if name in frame}) for frame in frames]

    def agreement(
        self, graders: Iterable[str] | None = None, *, repeats: bool = False, level: "Level" = "interval"
    ) -> "pd.DataFrame":
        """Return Krippendorff's alpha of the scores: between all or some graders, or by each between the repeats."""
        import pandas as pd

        from artifactflow_nb.plugins.graders.statistics import krippendorff_alpha

        grades, factors = self.grades_df, self._factors
        names = _known_graders(grades, graders)
        graded = grades[grades["outcome"] == GRADED].astype(dict.fromkeys([*factors, "grader"], str))
        several = [tuple(names)] if len(names) > 2 else []  # noqa: PLR2004 - a pair is not repeated
        groups = [(name,) for name in names] if repeats else [*several, *combinations(names, 2)]
        raters, units = ("repeat", [QUESTION, *factors]) if repeats else ("grader", ["cell"])
        rows = []
        for group in groups:
            chosen = graded[graded["grader"].isin(group)]
            table = chosen.pivot_table(index=raters, columns=units, values="score", aggfunc="mean")
            alpha = krippendorff_alpha(table.to_numpy(float).tolist(), level)
            rows.append((", ".join(group), raters, alpha, int((table.notna().sum() > 1).sum())))
        return pd.DataFrame(rows, columns=["graders", "between", "alpha", "units"])

    def disagreements(self, factor: str) -> "pd.DataFrame":
        """Return the questions with other figures or grades at other levels, with the answers side by side."""
        import pandas as pd

        cells, grades = self._frames(factor)
        keys = [QUESTION, "question", *(name for name in self._factors if name != factor), "repeat"]
        marks: dict[str, dict[str, str]] = {cell: {} for cell in cells["cell"]}
        for cell, grader, outcome, score in grades[["cell", "grader", "outcome", "score"]].itertuples(index=False):
            marks[cell][grader] = f"{outcome} {score:.6g}"
        rows = []
        for key, group in cells[cells["answer"].notna()].groupby(keys):
            answers = dict(zip(group[factor], group["answer"], strict=True))
            of_group = [marks[cell] for cell in group["cell"]]
            graders = sorted({grader for of_cell in of_group for grader in of_cell})
            differ = [grader for grader in graders if len({of_cell.get(grader) for of_cell in of_group}) > 1]
            differ += ["figures"] if any(figures_differ(*pair) for pair in combinations(answers.values(), 2)) else []
            if differ:
                rows.append({**dict(zip(keys, key, strict=True)), "differ": ", ".join(differ), **answers})
        return pd.DataFrame(rows)

    def plot_differences(self, factor: str, grader: str | None = None, *, ax: "Axes | None" = None) -> "Axes":
        """Plot the differences of `compare` with their intervals."""
        rows: dict[str, Any] = {f"{r.a} – {r.b}: {r.grader}": r for r in self.compare(factor, grader).itertuples()}
        with canvas(ax, len(rows)) as axes:
            axes.axvline(0, color=axes.title.get_color(), linewidth=0.8, linestyle=":")
            texts = [f"{row.difference:+.2f} [{row.low:.2f}, {row.high:.2f}], n = {row.n}" for row in rows.values()]
            for y, row in enumerate(rows.values()):
                axes.plot([row.low, row.high], [y, y], color=BLUE, linewidth=2.5, solid_capstyle="butt")
                axes.plot([row.difference], [y], color=BLUE, marker="o")
                write_beside(axes, y, texts[y])
            rows_axis(axes, list(rows))
            notes = list(dict.fromkeys(row.note for row in rows.values() if row.note))
            lines = "; ".join(f"{name} {text}" for name, text in zip(rows, texts, strict=True))
            unit = translate("Right of zero, the first level is better.")
            return finish(
                axes, translate("Differences of scores, with 95 per cent intervals"), f"{lines}.", notes, unit
            )

    def plot_costs(self, factor: str, grader: str, *, ax: "Axes | None" = None) -> "Axes":
        """Plot the mean cost of an answer against the mean score by a grader, a point for each level."""
        cells, grades = self._frames(factor)
        graded = grades[grades["grader"].isin(_known_graders(grades, [grader])) & (grades["outcome"] == GRADED)]
        points = cells.groupby(factor)[["cost_usd"]].mean().join(graded.groupby(factor)["score"].mean()).dropna()
        title = translate("Cost and score ({grader})", grader=grader)
        with canvas(ax, 10) as axes:
            if points.empty:
                return message_only(axes, title, translate("No level has both a cost and grades."))
            axes.plot(points["cost_usd"], points["score"], color=VERMILLION, marker="D", linestyle="none")
            for level, cost, score in points.itertuples():
                axes.annotate(level, (cost, score), (6, 4), textcoords="offset points")
            axes.set_ylabel(translate("mean score"))
            axes.margins(0.15)
            lines = "; ".join(f"{level} {usd(cost)}, {score:.2f}" for level, cost, score in points.itertuples())
            return finish(axes, title, f"{lines}.", unit=translate("US dollars for an answer"))

    def label(self, n: int = 20) -> "Panel":
        """Show a panel to label answers with the keys 1 to 5, in random order and without the names of levels.

        The labels are grades by `label by <user>`; answers that the user has labelled are left out.
        """
        from artifactflow_nb.plugins.studies.grading import LabelView

        panel: Panel = self._workbench.panel(lambda _engine: LabelView(self._grades, self.df, n))
        return panel

    def to_inspect(self, path: str) -> str:
        """Write cells and grades as a log of inspect_ai, for its viewer and `samples_df`; return the path.

        Errors: `UsageError` without inspect_ai, which the extra `artifactflow-nb[inspect]` installs.
        """
        from artifactflow_nb.plugins.studies.grading import write_inspect_log

        return write_inspect_log(self._stored, self.df, self.grades_df, self._factors, path)


def _known_graders(grades: "pd.DataFrame", graders: Iterable[str] | None) -> list[str]:
    known = list(dict.fromkeys(grades["grader"]))
    names = known if graders is None else list(graders)
    if not names or {*names} - {*known}:
        raise UsageError(f"There are no grades of {brief(names)}. Graders: {known}. study.grade(...) adds grades.")
    return names


def _means(frame: "pd.DataFrame", column: str, others: Sequence[str], factor: str, *pair: str) -> "pd.DataFrame":
    """Return the means of both levels, for each question and combination of the other factors that has both."""
    values = frame.astype({column: "Float64"}).astype({column: float})
    table = values.pivot_table(index=[QUESTION, *others], columns=factor, values=column, aggfunc="mean")
    return table.reindex(columns=list(pair)).dropna()


def compare_levels(
    cells: "pd.DataFrame", grades: "pd.DataFrame", others: Sequence[str], factor: str, a: str, b: str
) -> dict[str, Any]:
    """Return the row of `GradedStudy.compare` for a pair of levels and the grades of one grader."""
    from artifactflow_nb.plugins.graders.statistics import paired_difference, wilson

    cells = cells.assign(length=cells["answer"].str.len())
    means = _means(grades[grades["outcome"] == GRADED], "score", others, factor, a, b)
    columns = ("cost_usd", "duration_ms", "length")
    gaps = {name: (m := _means(cells, name, others, factor, a, b))[a] - m[b] for name in columns}
    result = paired_difference(means[a] - means[b], list(means.index.get_level_values(0)))
    row = {"grader": grades["grader"].iloc[0], "a": a, "b": b, "score_a": means[a].mean(), "score_b": means[b].mean()}
    row |= {**result._asdict(), "failed": int((grades[grades[factor].isin([a, b])]["outcome"] == FAILED).sum())}
    for name, level in (("a", a), ("b", b)):
        outcomes = grades.loc[grades[factor] == level, "outcome"]
        n_abstained, n_answers = int((outcomes == ABSTAINED).sum()), int((outcomes != FAILED).sum())
        row |= {f"abstained_{name}": n_abstained, f"answers_{name}": n_answers}
        row[f"abstained_{name}_low"], row[f"abstained_{name}_high"] = wilson(n_abstained, n_answers)
    correlation = (means[a] - means[b]).corr(gaps["length"]) if grades["judge"].notna().any() else 0.0
    if correlation >= _LENGTH_CORRELATION and not result.note:
        row["note"] = f"The scores of the judge follow the length of the answers (r = {correlation:.2f})."
    return row | {"cost_usd": gaps["cost_usd"].mean(), "duration_ms": gaps["duration_ms"].mean()}


def figures_differ(answer: str, other: str) -> bool:
    """Return whether each of two answers has a figure that the other lacks."""
    if find_spec("artifactflow_nb.plugins.claims") is None:
        return False
    from artifactflow_nb.plugins.claims.figures import agrees, read_figures

    a, b = read_figures(answer), read_figures(other)
    pairs = ((a, b), (b, a))
    return all(any(not any(agrees(f, g) or agrees(g, f) for g in there) for f in here) for here, there in pairs)
