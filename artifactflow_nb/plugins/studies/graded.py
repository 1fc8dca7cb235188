"""`GradedStudy`: the methods of a study that grade its answers and compare its levels."""

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from math import nan
from typing import TYPE_CHECKING, Any

import orjson

from artifactflow_nb.analysis.plots import canvas as plots
from artifactflow_nb.core.language import translate
from artifactflow_nb.core.text.format import usd
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.plugins.graders import ABSTAINED, FAILED, GRADED, answer_figures
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
_CORRELATION = 0.7
"""From this correlation on, the scores of a judge follow the length of the answers, or the time follows the level."""
_LONGER = 0.2
"""The share by which the answers of a level are longer in the mean, from which the level counts as longer."""


class GradedStudy:
    """Grades of a study; `Study` has the study's name, workbench and frame."""

    _workbench: Any
    _stored: StudyRow
    df: "pd.DataFrame"

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
        and `answers_b`, with Wilson's interval of the shares; `failed` grades; differences of time, and of cost unless
        a price is unknown. The intervals hold for one pair each: of 20 pairs without a difference, one has an interval
        without zero.

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
        if not groups:
            raise UsageError(f"There are grades by {names[0]!r} alone. Grade by another grader, or pass repeats=True.")
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
        ended = grades[grades["outcome"] != FAILED]
        for cell, grader, outcome, score in ended[["cell", "grader", "outcome", "score"]].itertuples(index=False):
            marks[cell][grader] = f"{outcome} {score:.6g}"
        rows = []
        for key, group in cells[cells["answer"].notna()].groupby(keys):
            answers = dict(zip(group[factor], group["answer"], strict=True))
            of_group = [marks[cell] for cell in group["cell"]]
            graders = sorted({grader for of_cell in of_group for grader in of_cell})
            differ = [name for name in graders if len({each[name] for each in of_group if name in each}) > 1]
            differ += ["figures"] if any(figures_differ(*pair) for pair in combinations(answers.values(), 2)) else []
            if differ:
                rows.append({**dict(zip(keys, key, strict=True)), "differ": ", ".join(differ), **answers})
        return pd.DataFrame(rows)

    def plot_differences(self, factor: str, grader: str | None = None, *, ax: "Axes | None" = None) -> "Axes":
        """Plot the differences of `compare` with their intervals."""
        rows: dict[str, Any] = {f"{r.a} – {r.b}: {r.grader}": r for r in self.compare(factor, grader).itertuples()}
        with plots.canvas(ax, len(rows)) as axes:
            axes.axvline(0, color=axes.title.get_color(), linewidth=0.8, linestyle=":")
            texts = [f"{row.difference:+.2f} [{row.low:.2f}, {row.high:.2f}], n = {row.n}" for row in rows.values()]
            for y, row in enumerate(rows.values()):
                axes.plot([row.low, row.high], [y, y], color=plots.BLUE, linewidth=2.5, solid_capstyle="butt")
                axes.plot([row.difference], [y], color=plots.BLUE, marker="o")
                plots.write_beside(axes, y, texts[y])
            plots.rows_axis(axes, list(rows))
            notes = list(dict.fromkeys(row.note for row in rows.values() if row.note))
            lines = "; ".join(f"{name} {text}" for name, text in zip(rows, texts, strict=True))
            title = translate("Differences of scores, with 95 per cent intervals")
            return plots.finish(axes, title, f"{lines}.", notes, translate("Right of zero, the first level is better."))

    def plot_costs(self, factor: str, grader: str, *, ax: "Axes | None" = None) -> "Axes":
        """Plot the mean cost of an answer against the mean score by a grader, over the questions of all levels."""
        import pandas as pd

        cells, grades = self._frames(factor)
        graded = grades[grades["grader"].isin(_known_graders(grades, [grader])) & (grades["outcome"] == GRADED)]
        answered = cells[cells["answer"].notna()]
        unpriced = {*answered[factor][answered["cost_usd"].isna()]}
        levels = [level for level in dict.fromkeys(answered[factor]) if level in {*graded[factor]} - unpriced]
        others = [name for name in self._factors if name != factor]
        columns = ((answered, "cost_usd"), (graded, "score"))
        points = pd.DataFrame({name: _means(frame, name, others, factor, *levels).mean() for frame, name in columns})
        title = translate("Cost and score ({grader})", grader=grader)
        with plots.canvas(ax, 10) as axes:
            if points.dropna().empty:
                return plots.message_only(axes, title, translate("No level has both a cost and grades."))
            axes.plot(points["cost_usd"], points["score"], color=plots.VERMILLION, marker="D", linestyle="none")
            for level, cost, score in points.itertuples():
                axes.annotate(level, (cost, score), (6, 4), textcoords="offset points")
            axes.set_ylabel(translate("mean score"))
            axes.margins(0.15)
            lines = "; ".join(f"{level} {usd(cost)}, {score:.2f}" for level, cost, score in points.itertuples())
            return plots.finish(axes, title, f"{lines}.", unit=translate("US dollars for an answer"))

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
    """Return the means of levels by question, over the combinations of the other factors that have all the levels."""
    values = frame.astype({column: "Float64"}).astype({column: float})
    table = values.pivot_table(index=[QUESTION, *others], columns=factor, values=column, aggfunc="mean")
    return table.reindex(columns=list(pair)).dropna().groupby(level=0).mean()


def compare_levels(
    cells: "pd.DataFrame", grades: "pd.DataFrame", others: Sequence[str], factor: str, a: str, b: str
) -> dict[str, Any]:
    """Return the row of `GradedStudy.compare` for a pair of levels and the grades of one grader."""
    from artifactflow_nb.plugins.graders.statistics import paired_difference, wilson

    row = {"grader": grades["grader"].iloc[0], "a": a, "b": b}
    cells, grades = (frame[frame[factor].isin([a, b])] for frame in (cells, grades))
    answered, graded = cells[cells["answer"].notna()], grades[grades["outcome"] == GRADED]
    answered = answered.assign(length=answered["answer"].str.len())
    columns = ((graded, "score"), *((answered, name) for name in ("cost_usd", "duration_ms", "length")))
    means, costs, times, lengths = (_means(frame, name, others, factor, a, b) for frame, name in columns)
    result = paired_difference(means[a] - means[b])
    row |= {"score_a": means[a].mean(), "score_b": means[b].mean(), **result._asdict()}
    row["failed"] = int((grades["outcome"] == FAILED).sum())
    for name, level in (("a", a), ("b", b)):
        of_level = grades[(grades[factor] == level) & (grades["outcome"] != FAILED)]
        is_abstained, n = of_level["outcome"] == ABSTAINED, of_level[QUESTION].nunique()
        row |= {f"abstained_{name}": int(is_abstained.sum()), f"answers_{name}": len(of_level)}
        row[f"abstained_{name}_low"], row[f"abstained_{name}_high"] = wilson(n and is_abstained.mean() * n, n)
    if not result.note:
        n_questions = cells[QUESTION].nunique()
        notes = [f"{result.n} of {n_questions} questions have grades of both."] * (result.n < n_questions)
        row["note"] = " ".join([*notes, *_judge_notes(graded[graded["judge"].notna()], means, lengths, factor)])
    row["cost_usd"] = (costs[a] - costs[b]).mean() if answered["cost_usd"].notna().all() else nan
    return row | {"duration_ms": (times[a] - times[b]).mean()}


def _judge_notes(judged: "pd.DataFrame", scores: "pd.DataFrame", lengths: "pd.DataFrame", factor: str) -> list[str]:
    """Return what makes the difference of a judge's scores doubtful: the length of answers, the order of grading."""
    if judged.empty:
        return []
    a, b = scores.columns
    gaps, lengths, notes = scores[a] - scores[b], lengths.reindex(scores.index), []
    longer = lengths[a] - lengths[b]
    correlation = gaps.corr(longer)
    if abs(longer.mean()) > _LONGER * lengths.mean().min():  # one level has the longer answers
        together = (gaps * longer).sum() / (((gaps**2).sum() * (longer**2).sum()) ** 0.5 or 1.0)
        correlation = max(together, correlation)
    if correlation >= _CORRELATION:
        notes.append(f"The scores of the judge follow the length of the answers (r = {correlation:.2f}).")
    if abs(judged["graded_at"].rank().corr((judged[factor] == a).astype(float))) >= _CORRELATION:
        notes.append("The judge graded one level before the other, and may have become stricter or milder between.")
    return notes


def figures_differ(answer: str, other: str) -> bool:
    """Return whether each of two answers has a figure that the other lacks."""
    try:
        from artifactflow_nb.plugins.claims.figures import agrees
    except ImportError:  # a package without the plugin that reads figures
        return False
    a, b = answer_figures(answer), answer_figures(other)
    pairs = ((a, b), (b, a))
    return all(any(not any(agrees(f, g) or agrees(g, f) for g in there) for f in here) for here, there in pairs)
