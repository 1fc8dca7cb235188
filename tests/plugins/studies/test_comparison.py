"""Comparisons of frames that are written by hand: pairs, agreement, disagreements and plots."""

from typing import Any

import matplotlib as mpl
import pandas as pd
import pytest

from artifactflow_nb.analysis.plots.canvas import alt_text
from artifactflow_nb.errors import UsageError
from artifactflow_nb.plugins.studies.graded import GradedStudy

mpl.use("agg")

LEVELS = ("small", "large", "huge")


class StudyOfFrames(GradedStudy):
    """A study whose frames are written by hand."""

    df = grades_df = _stored = None
    _factors = ("model",)

    def __init__(self, cells: pd.DataFrame, grades: pd.DataFrame, *further: str) -> None:
        self.df, self.grades_df, self._factors = cells, grades, ["model", *further]


def frames(scores: dict[str, list[Any]], **answers: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells and grades: for each model the scores by question; None is an abstention, "failed" a failed grade."""
    cells, grades = [], []
    for model, of_model in scores.items():
        for n, score in enumerate(of_model):
            cell = {"cell": f"{model}{n}", "question_n": n, "question": f"Q{n}", "model": model, "repeat": 0}
            answer = answers[model][n] if model in answers else "It is so."
            results = {"state": "done", "answer": answer, "cost_usd": 0.01 * len(model), "duration_ms": 1000.0 + n}
            cells.append({**cell, **results})
            outcome = "abstained" if score is None else "failed" if score == "failed" else "graded"
            result = {"score": score if outcome == "graded" else None, "outcome": outcome, "judge": None}
            result["graded_at"] = pd.Timestamp(n, unit="s", tz="UTC")
            grades.append({**cell, "grader": "rule", **result})
    frame = pd.DataFrame(grades)
    return pd.DataFrame(cells), frame.assign(
        score=frame["score"].astype(float), grader=frame["grader"].astype("category")
    )


SCORES = {
    "small": [0.2, 0.4, 0.6, 0.8, 1.0, None, 0.5, 0.0],
    "large": [0.4, 0.4, 0.9, 0.9, 1.0, 1.0, "failed", 0.5],
}


def test_compared_levels_are_paired_by_question() -> None:
    """The question without a score of both counts as abstained or failed, and in no mean."""
    cells, grades = frames(SCORES)
    compared = StudyOfFrames(cells, grades).compare("model")
    row = compared.iloc[0]
    assert (row["a"], row["b"], row["n"]) == ("small", "large", 6)
    assert row["difference"] == pytest.approx(-1.1 / 6)
    assert (row["score_a"], row["score_b"]) == (pytest.approx(0.5), pytest.approx(4.1 / 6))
    assert (row["wins"], row["ties"], row["losses"]) == (0, 2, 4)
    assert (row["abstained_a"], row["abstained_b"], row["failed"]) == (1, 0, 1)
    assert (row["answers_a"], row["answers_b"]) == (8, 7)
    assert row["cost_usd"] == pytest.approx(0)
    assert row["low"] < row["difference"] < row["high"]
    assert (row["abstained_a_low"], row["abstained_a_high"]) == pytest.approx((0.0224, 0.4709), abs=1e-4)


def test_three_levels_are_three_pairs() -> None:
    compared = StudyOfFrames(*frames(dict.fromkeys(LEVELS, [0.5] * 6))).compare("model")
    assert [(row.a, row.b) for row in compared.itertuples()] == [
        ("small", "large"),
        ("small", "huge"),
        ("large", "huge"),
    ]


def test_other_factors_are_paired_and_questions_count_once() -> None:
    cells, grades = frames({"small": [0.0] * 6, "large": [1.0] * 6})
    both = [frame.assign(depth=depth, cell=frame["cell"] + depth) for frame in (cells, grades) for depth in ("a", "b")]
    row = StudyOfFrames(pd.concat(both[:2]), pd.concat(both[2:]), "depth").compare("model").iloc[0]
    assert (row["n"], row["difference"]) == (6, -1)


def test_difference_is_that_of_the_means_if_a_question_lacks_a_combination() -> None:
    """Questions weigh the same: the text, the table and the plot have one figure."""
    cells, grades = frames({"small": [0.0, 0.2, 0.2, 0.2, 0.2, 0.2], "large": [1.0, 0.2, 0.2, 0.2, 0.2, 0.2]})
    both = [frame.assign(depth=depth, cell=frame["cell"] + depth) for frame in (cells, grades) for depth in ("a", "b")]
    both[3] = both[3][both[3]["question_n"] > 0]
    study = StudyOfFrames(pd.concat(both[:2]), pd.concat(both[2:]), "depth")
    row = study.compare("model").iloc[0]
    assert row["difference"] == pytest.approx(-1 / 6)
    assert row["score_a"] - row["score_b"] == pytest.approx(row["difference"])
    assert f"{row['difference']:+.2f}" in alt_text(study.plot_differences("model"))
    assert alt_text(study.plot_costs("model", "rule")).endswith(f"{row['score_b']:.2f}.")


def test_questions_without_grades_of_both_are_said() -> None:
    compared = StudyOfFrames(*frames(SCORES)).compare("model")
    assert compared["note"][0] == "6 of 8 questions have grades of both."


def test_unknown_price_makes_the_difference_of_costs_unknown() -> None:
    cells, grades = frames(SCORES)
    cells.loc[3, "cost_usd"] = None
    assert pd.isna(StudyOfFrames(cells, grades).compare("model")["cost_usd"][0])


def test_interval_of_abstentions_counts_questions_and_no_repeats() -> None:
    cells, grades = frames(SCORES)
    both = [frame.assign(repeat=n, cell=frame["cell"] + f"r{n}") for frame in (cells, grades) for n in range(3)]
    row = StudyOfFrames(pd.concat(both[:3]), pd.concat(both[3:])).compare("model").iloc[0]
    assert (row["abstained_a"], row["answers_a"]) == (3, 24)
    assert (row["abstained_a_low"], row["abstained_a_high"]) == pytest.approx((0.0224, 0.4709), abs=1e-4)


LONG = {"small": ["It is so."] * 8, "large": ["It is so, and that is what the sources say of it."] * 8}


def test_judge_that_prefers_the_level_with_longer_answers_is_reported() -> None:
    """All answers of a level have one length, so that the differences do not vary; a rule is not suspected."""
    scores = {"small": [0.3, 0.4, 0.3, 0.4, 0.3, 0.4, 0.3, 0.4], "large": [0.7, 0.8, 0.7, 0.8, 0.8, 0.7, 0.7, 0.8]}
    cells, grades = frames(scores, **LONG)
    judged = StudyOfFrames(cells, grades.assign(judge="judge")).compare("model")
    assert "follow the length of the answers" in judged["note"][0]
    assert StudyOfFrames(cells, grades).compare("model")["note"][0] == ""
    fair = frames({"small": scores["small"], "large": scores["small"][::-1]}, **LONG)
    assert StudyOfFrames(fair[0], fair[1].assign(judge="judge")).compare("model")["note"][0] == ""


def test_judge_that_graded_one_level_before_the_other_is_reported() -> None:
    cells, grades = frames({"small": [0.5] * 8, "large": [0.4] * 8})
    late = grades["graded_at"].where(grades["model"] == "small", grades["graded_at"] + pd.Timedelta("1h"))
    compared = StudyOfFrames(cells, grades.assign(judge="judge", graded_at=late)).compare("model")
    assert "The judge graded one level before the other" in compared["note"][0]
    assert StudyOfFrames(cells, grades.assign(judge="judge")).compare("model")["note"][0] == ""


def test_grader_without_grades_of_a_pair_has_a_row_without_a_difference() -> None:
    cells, grades = frames(dict.fromkeys(LEVELS, [0.5] * 6))
    compared = StudyOfFrames(cells, grades[grades["model"] == "huge"]).compare("model")
    assert compared["n"].tolist() == [0, 0, 0]
    assert compared["difference"].isna().all()


def test_failed_grades_and_marks_of_citations_are_no_disagreements() -> None:
    answers = {"small": ["It is 5 m [1]."] * 4, "large": ["It is 5 m [2]."] * 4}
    cells, grades = frames({"small": [1, "failed", 1, 1], "large": [1, 1, None, 1]}, **answers)
    table = StudyOfFrames(cells, grades).disagreements("model")
    assert table[["question_n", "differ"]].to_numpy().tolist() == [[2, "rule"]]


def test_agreement_of_one_grader_alone_is_refused() -> None:
    _, grades = frames(SCORES)
    with pytest.raises(UsageError, match="grades by 'rule' alone"):
        StudyOfFrames(None, grades).agreement()


def test_few_questions_have_a_sentence_and_no_interval() -> None:
    compared = StudyOfFrames(*frames({"small": [0.1] * 4, "large": [0.9] * 4})).compare("model")
    assert compared["low"].isna().all()
    assert "an interval needs at least 5" in compared["note"][0]


def test_unknown_names_are_refused_with_the_known_names() -> None:
    cells, grades = frames(SCORES)
    with pytest.raises(UsageError, match="'depth' does not vary in this study. Factors: model."):
        StudyOfFrames(cells, grades).compare("depth")
    with pytest.raises(UsageError, match=r"There are no grades of \['rubric'\]. Graders: \['rule'\]"):
        StudyOfFrames(cells, grades).compare("model", "rubric")
    with pytest.raises(UsageError, match="There are no grades"):
        StudyOfFrames(cells, grades.iloc[:0]).compare("model")


def test_agreement_of_graders_and_of_repeats() -> None:
    _, grades = frames({"small": [0, 1, 0, 1], "large": [1, 1, 0, 0]})
    other = grades.assign(grader="person", score=1 - grades["score"])
    third = grades.assign(grader="judge", score=grades["score"])
    table = StudyOfFrames(None, pd.concat([grades, other, third])).agreement(level="nominal")
    assert list(table["graders"]) == ["rule, person, judge", "rule, person", "rule, judge", "person, judge"]
    assert list(table["alpha"].round(3)) == [pytest.approx(-0.278, abs=2e-3), -0.875, 1, -0.875]
    assert set(table["units"]) == {8}
    again = pd.concat([grades, grades.assign(repeat=1)])
    assert StudyOfFrames(None, again).agreement(["rule"], repeats=True)["alpha"].tolist() == [1]


def test_disagreements_show_answers_side_by_side() -> None:
    small = ["It is 5 m.", "It is 7 m.", "It is 9 m.", "It is 3 m."]
    large = ["It is 5 m.", "It is 8 m.", "It is nine metres.", "It is 300 cm or more."]
    cells, grades = frames({"small": [1, 1, 1, 1], "large": [1, 1, 0, 1]}, small=small, large=large)
    table = StudyOfFrames(cells, grades).disagreements("model")
    assert list(table["question_n"]) == [1, 2]
    assert list(table["differ"]) == ["figures", "rule"]
    assert list(table["large"]) == ["It is 8 m.", "It is nine metres."]
    assert StudyOfFrames(cells, grades.iloc[:0]).disagreements("model")["differ"].tolist() == ["figures"]


def test_plots_are_axes_with_a_text_alternative() -> None:
    cells, grades = frames(SCORES)
    study = StudyOfFrames(cells, grades)
    axes = study.plot_differences("model")
    assert "small – large: rule -0.18 [" in alt_text(axes)
    assert study.plot_differences("model", ax=axes) is axes
    costs = study.plot_costs("model", "rule")
    assert alt_text(costs) == "Cost and score (rule). small 0.05 USD, 0.50; large 0.05 USD, 0.68."
    nothing = StudyOfFrames(cells.assign(cost_usd=pd.NA), grades).plot_costs("model", "rule")
    assert "No level has both a cost and grades." in alt_text(nothing)
