"""A sealed study: the same frames in another store, and hostile files refused in a sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest
from conftest import OpenWorkbench

import artifactflow_nb as af
from artifactflow_nb.errors import CassetteError, Conflict, ModelUnavailable
from artifactflow_nb.plugins.graders import CellGrade
from artifactflow_nb.recording.files import pack, unpack


@pytest.fixture
def sealed(workbench: OpenWorkbench, tmp_path: Path) -> tuple[Path, pd.DataFrame]:
    """A sealed study, one of whose cells needed two attempts, and its frame."""
    turns = iter([ModelUnavailable("Away."), *["It is so."] * 9])
    wb = workbench(lambda _request: next(turns), interactive=False)
    study = wb.studies.start(["Who?", "How?"], vary={"seed": [1, 2]}, name="depths", at_once=1).wait(20)
    study.grade(lambda _row: 1.0)
    return study.seal(tmp_path / "depths.afstudy"), study.df


def test_imported_study_has_the_same_frames(
    sealed: tuple[Path, pd.DataFrame], workbench: OpenWorkbench, tmp_path: Path
) -> None:
    path, frame = sealed
    wb = workbench(data_dir=tmp_path / "other", interactive=False)
    study = wb.studies.import_study(path)
    pd.testing.assert_frame_equal(study.df, frame)
    assert len(wb.runs(100)) == 5
    assert wb.studies.import_study(path).state == "done"
    again = study.seal(tmp_path / "again.afstudy")
    assert again.read_bytes() == path.read_bytes()


def test_grades_labels_and_the_runs_of_judges_come_back(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A judge that is asked twice has two runs; in the other store nothing is graded again."""

    def reply(request: Any) -> str:
        is_judge = "Grade the answer" in request.messages[-1].content
        return '{"score": 8, "reason": "Good.", "quote": "It is so."}' if is_judge else "It is so."

    wb = workbench(reply, interactive=False)
    questions = pd.DataFrame({"question": ["Who?", "How?"], "expected": ["It is so", "No"]})
    study = wb.studies.start(questions, vary={"depth": ["quick", "deep"]}, name="graded").wait(20)
    graders = (af.graders.exact("expected"), af.graders.rubric("Is it good?", repeats=2, may_judge_itself=True))
    study.grade(*graders)
    label = "label by ada", study.df.iloc[0].to_dict(), "a hash", CellGrade("graded", 0.75, judge="person:ada")
    wb._thread.call(study._grades.write([label]))
    path = study.seal(tmp_path / "graded.afstudy")
    other = workbench(reply, data_dir=tmp_path / "other", interactive=False)
    imported = other.studies.import_study(path)
    for _ in range(2):
        pd.testing.assert_frame_equal(imported.grades_df, study.grades_df)
        pd.testing.assert_frame_equal(imported.compare("depth"), study.compare("depth"))
        assert len(other.runs(100)) == len(wb.runs(100)) == 4 + 4 * 2
        imported.grade(*graders)
    assert imported.seal(tmp_path / "again.afstudy").read_bytes() == path.read_bytes()


def test_study_that_has_not_ended_is_not_sealed(workbench: OpenWorkbench, tmp_path: Path) -> None:
    call = af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": "Text"})
    wb = workbench(lambda _request: call, interactive=False, approvals={"create_artifact": "ask"})
    study = wb.studies.start(["Who?"], name="waits").wait(20)
    with pytest.raises(Conflict, match="The study 'waits' has not ended: wait for it, or cancel it"):
        study.seal(tmp_path / "waits.afstudy")
    study.cancel().wait(20)
    assert study.seal(tmp_path / "waits.afstudy").exists()


def test_study_with_the_name_of_another_is_not_imported(
    sealed: tuple[Path, pd.DataFrame], workbench: OpenWorkbench, tmp_path: Path
) -> None:
    wb = workbench(lambda _request: "Yes.", data_dir=tmp_path / "other", interactive=False)
    wb.studies.start(["Why?"], name="depths").wait(20)
    with pytest.raises(Conflict, match="The store has another study 'depths', and nothing was imported"):
        wb.studies.import_study(sealed[0])
    assert len(wb.runs(100)) == 1


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, bytes]], object]:
    def apply(members: dict[str, bytes]) -> None:
        content = orjson.loads(members["study.json"])
        change(content)
        members["study.json"] = orjson.dumps(content)

    return apply


def changed_spec(**changes: Any) -> Callable[[dict[str, bytes]], object]:
    def change(content: dict[str, Any]) -> None:
        (study,) = content["studies"]
        study["spec"] = orjson.dumps({**orjson.loads(study["spec"]), **changes}).decode()

    return changed(change)


HOSTILE: dict[str, Callable[[dict[str, bytes]], object]] = {
    "format: Field required": lambda members: members.pop("study.json"),
    "unexpected end of data": lambda members: members.update({"study.json": b"{"}),
    "format: Input should be": changed(lambda content: content.update(format="artifactflow-nb sealed study 2")),
    "The study has not ended": changed(lambda content: content["studies"][0].update(state="running")),
    "has not ended": changed(lambda content: content["study_cells"][0].update(state="waiting")),
    "unexpected end": changed(lambda content: content["study_cells"][0].update(earlier_runs="[[")),
    "study_cells.0.more": changed(lambda content: content["study_cells"][0].update(more=1)),
    "study_cells.0.n": changed(lambda content: content["study_cells"][0].update(n="1")),
    "should be an object": changed(lambda content: content["studies"][0].update(spec="[]")),
    "to unpack": changed(lambda content: content["studies"].clear()),
    "id of another": changed(lambda content: content["study_cells"][0].update(cell_id="study-x/1")),
    "belongs to no cell": changed(
        lambda content: content["study_grades"].append(
            dict.fromkeys(("grade_id", "study_id", "cell_id", "grader", "grader_sha256", "outcome"), "x")
            | dict.fromkeys(("run_id", "score", "evidence", "judge", "judge_run_id", "cost_usd"))
            | {"graded_at": 1}
        )
    ),
    "A grade belongs to no cell": changed(lambda content: content["study_grades"].append(content["study_grades"][0])),
    "grade belongs": changed(lambda content: content["study_grades"][0].update(study_id="study-x")),
    "its score is not between 0 and 1": changed(lambda content: content["study_grades"][0].update(score=7.0)),
    "A cell has the id of another": changed(lambda content: content["study_cells"][0].update(study_id="study-x")),
    "cell has the id": changed(
        lambda content: content["study_cells"][0].update(
            key="../x", cell_id=f"{content['studies'][0]['study_id']}/../x"
        )
    ),
    "an option or a column is unknown": changed(
        lambda content: content["study_cells"][0].update(columns='{"error": 1}')
    ),
    "A factor, an option": changed(lambda content: content["study_cells"][0].update(factors='[["seed", 1]]')),
    "a column is unknown": changed_spec(options={"data_dir": "/"}),
    "at_once: Input should be greater than 0": changed_spec(at_once=0),
    "rates.small: Value error, requests is 0": changed_spec(rates={"small": {"requests": 0}}),
    "budget.euros: Extra inputs": changed_spec(budget={"euros": 1}),
    "The id of a run is no text": changed(lambda content: content["study_cells"][0].update(earlier_runs="[{}]")),
    "another id than its file": lambda members: members.update({"runs/run-x.afrun": members.pop(next(iter(members)))}),
    "sealed": lambda members: members.update({"runs/run-x.afrun": b"no zip"}),
}


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_file_is_refused_in_a_sentence(
    sealed: tuple[Path, pd.DataFrame], workbench: OpenWorkbench, tmp_path: Path, words: str
) -> None:
    members = unpack(sealed[0].read_bytes())
    HOSTILE[words](members)
    path = tmp_path / "hostile.afstudy"
    path.write_bytes(pack(members))
    wb = workbench(data_dir=tmp_path / "other", interactive=False)
    with pytest.raises(CassetteError, match=r"hostile.afstudy cannot be used: .* Nothing was imported\.$") as caught:
        wb.studies.import_study(path)
    assert words in str(caught.value)
    assert len(wb.studies) == len(wb.runs(100)) == 0
