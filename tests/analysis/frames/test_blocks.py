"""The frame of blocks."""

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from support import frames

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.plugins.projects.frames import BLOCKS

OpenWorkbench = Callable[..., af.Workbench]


@pytest.fixture
def wb(open_workbench: OpenWorkbench) -> Any:
    with open_workbench(model=ScriptedModel(["One.", "Two.", "Three."])) as opened:
        book = opened.projects.start("Book", template="paper")
        part = book.add("Part", is_group=True)
        book.add("Method", "By counting.", parent=part, auto_generate=True)
        book.add("Analysis", "Seven.", depends_on=[part], need_review=True, reason="It was asked for.")
        book["Method"].write("By weighing.")
        opened.projects.start("目录").add("方法\x00", "😀 一二")
        yield opened


def test_row_has_position_dependencies_and_staleness(wb: af.Workbench) -> None:
    """The ids join with the other frames, and a group has the status of its blocks."""
    book = wb.projects.blocks_df("Book").set_index("name")
    assert book.index.tolist() == ["Part", "Method", "Analysis"]
    assert book["position"].tolist() == [1, 2, 3]
    assert book["path"].tolist() == ["Part", "Part / Method", "Analysis"]
    assert book["parent_id"].fillna("").tolist() == ["", "part", ""]
    assert book["status"].tolist() == ["draft", "draft", "draft"]
    assert book["is_stale"].tolist() == [False, False, True]
    assert json.loads(book["stale_because_json"]["Analysis"]) == ["Method"]
    assert json.loads(book["depends_on_json"]["Analysis"]) == ["part"]
    assert book[["is_group", "auto_generate", "need_review"]].to_numpy().tolist() == [
        [True, False, False], [False, True, False], [False, False, True],
    ]  # fmt: skip
    assert book["n_chars"].tolist() == [0, 12, 6]
    assert book["version"].tolist() == [1, 2, 1]
    assert book["reason"].fillna("").tolist() == ["", "", "It was asked for."]
    assert set(book["created_by"]) == {"user"}
    versions = wb.artifacts_df().groupby("artifact_id")["created_at"].max()
    assert book["updated_at"].tolist() == versions[book["block_id"]].tolist()


def test_names_may_have_any_characters(wb: af.Workbench) -> None:
    """Names may contain Chinese, and NUL, at which SQLite's own functions cut a text."""
    row = wb.projects.blocks_df("目录").iloc[0]
    assert (row["project"], row["name"], row["path"], row["n_chars"]) == ("目录", "方法\x00", "方法\x00", 4)


def test_project_filter_accepts_names_and_handles(wb: af.Workbench) -> None:
    """Projects are selected by name or handle, one or several; an unknown name is an error."""
    every = wb.projects.blocks_df()
    assert every["project"].value_counts().to_dict() == {"Book": 3, "目录": 1}
    for reference in ("Book", wb.projects.start("Book"), ["Book"], [wb.projects.start("Book")]):
        assert wb.projects.blocks_df(reference)["name"].tolist() == ["Part", "Method", "Analysis"]
    assert len(wb.projects.blocks_df(wb.projects)) == 4
    assert len(wb.projects.blocks_df([])) == 0
    assert len(wb.projects.blocks_df(conversation=wb.projects.start("目录"))) == 1
    with pytest.raises(af.errors.NotFound, match=r"no project 'Bok' in this store. wb.projects lists"):
        wb.projects.blocks_df("Bok")
    with pytest.raises(af.errors.UsageError, match="project is 7, which is int; pass a Project"):
        wb.projects.blocks_df(7)  # type: ignore[arg-type]
    with pytest.raises(af.errors.UsageError, match="frame blocks has no filter 'run'"):
        frames.load_frame(wb.data_dir / "store.db", BLOCKS, "run-1")


def test_rows_are_those_of_the_active_branch(wb: af.Workbench) -> None:
    """Blocks of other branches and deleted blocks have no row."""
    book = wb.projects.start("Book")
    first = wb.ask("One?", conversation_id=book.conversation_id).wait()
    book["Method"].write("By guessing, and so on.")
    book["Analysis"].delete()
    assert wb.projects.blocks_df("Book", columns="size")["n_chars"].tolist() == [0, 23]
    wb.conversation(first).regenerate().wait()
    assert wb.projects.blocks_df("Book", columns="size")["n_chars"].tolist() == [0, 12, 6]


def test_query_reads_blocks(wb: af.Workbench) -> None:
    """SQL joins the frame with others, and its columns keep their types."""
    sql = (
        "SELECT b.name, b.is_stale, b.updated_at, count(*) AS versions FROM blocks b JOIN artifacts a "
        "ON a.artifact_id = b.block_id AND a.conversation_id = b.conversation_id "
        "WHERE project = ? GROUP BY 1 ORDER BY 1"
    )
    found = wb.query(sql, ["Book"])
    assert found["name"].tolist() == ["Analysis", "Method", "Part"]
    assert found["versions"].tolist() == [1, 2, 1]
    types = ["boolean", "datetime64[us, UTC]"]
    assert found.dtypes[["is_stale", "updated_at"]].map(str).tolist() == types


def test_overwritten_project_has_no_rows(wb: af.Workbench) -> None:
    """A project artifact that a person overwrote has no rows; other projects keep their rows."""
    head = wb.artifacts(wb.projects.start("Book").conversation_id)["project"]
    head.edit("{}")
    assert set(wb.projects.blocks_df()["project"]) == {"目录"}
    head.newest.restore(1)
    assert len(wb.projects.blocks_df()) == 4


def test_columns_are_selected_with_ids(wb: af.Workbench) -> None:
    """The ids are always included, since frames join on them."""
    assert wb.projects.blocks_df(columns="place").columns.tolist() == [
        "parent_id", "position", "depends_on_json", "block_id", "conversation_id",
    ]  # fmt: skip
    assert isinstance(wb.projects.blocks_df()["phase"].dtype, pd.CategoricalDtype)
