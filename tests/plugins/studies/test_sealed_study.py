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
from artifactflow_nb.recording.files import pack, unpack


@pytest.fixture
def sealed(workbench: OpenWorkbench, tmp_path: Path) -> tuple[Path, pd.DataFrame]:
    """A sealed study, one of whose cells needed two attempts, and its frame."""
    turns = iter([ModelUnavailable("Away."), *["It is so."] * 9])
    wb = workbench(lambda _request: next(turns), interactive=False)
    study = wb.studies.start(["Who?", "How?"], vary={"seed": [1, 2]}, name="depths", at_once=1).wait(20)
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
