"""`wb.sources.search_df`: the results of a search in the sources, with their scores."""

from pathlib import Path

import pytest
from support.pages import visible_text

import artifactflow_nb as af
from artifactflow_nb.sources.citations import read_hits

NOTES = {
    "zones.md": "# Zones\n\nThe oxygen minimum zone lies between 200 and 900 m.\n",
    "gases.md": "# Gases\n\nOxygen dissolves better in cold water. The zone of mixing is shallow.\n",
    "birds.md": "# Birds\n\nTerns nest on the roof.\n",
}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_search_df_shows_the_results_of_an_agent(notes: Path, tmp_path: Path) -> None:
    """The rows are the hits of `web_search` in a run, in the same order, each with the scores of both stages."""
    model = af.ScriptedModel([af.ToolCall("web_search", {"query": "oxygen minimum zone"}), "Done."])
    config = {"lead_agent": {"tools": ["web_search"]}}
    with af.Workbench(model=model, data_dir=tmp_path / "data", interactive=False, graph_config=config) as wb:
        wb.sources.add(notes)
        frame = wb.sources.search_df("oxygen minimum zone")
        run = wb.ask("Where is the zone?").wait()
        (call,) = run.rows()["tool_calls"]
    seen = read_hits(call["result"])
    assert frame[["title", "snippet", "address"]].to_numpy().tolist() == [
        [hit.title, hit.snippet, hit.address] for hit in seen
    ]
    assert list(frame["address"]) == ["local:notes/zones.md#zones", "local:notes/gases.md#gases"]
    assert list(frame.columns) == ["rank", "title", "snippet", "score", "similarity", "address"]
    assert list(frame["rank"]) == [1, 2]
    assert frame["score"].is_monotonic_decreasing
    assert frame["score"].gt(0).all()


def test_search_df_has_the_present_text_of_files(notes: Path, tmp_path: Path) -> None:
    """A file that changed is read again; a search that finds nothing is an empty frame with the same columns."""
    with af.Workbench(data_dir=tmp_path / "data", interactive=False) as wb:
        wb.sources.add(notes)
        (notes / "birds.md").write_text("# Birds\n\nTerns left; the roof is an oxygen store now.\n", encoding="utf-8")
        frame = wb.sources.search_df("terns", limit=1)
        assert list(frame["snippet"]) == ["# Birds Terns left; the roof is an oxygen store now."]
        empty = wb.sources.search_df("helicopter")
        assert empty.empty
        assert empty.dtypes.to_dict() == frame.dtypes.to_dict()
        with pytest.raises(af.errors.UsageError, match="The query is empty"):
            wb.sources.search_df(" ")
        with pytest.raises(af.errors.UsageError, match="limit is -1"):
            wb.sources.search_df("terns", limit=-1)


def repr_of(wb: af.Workbench) -> str:
    return visible_text(wb._repr_html_())


def test_second_workbench_searches_all_sources_of_the_store(notes: Path, tmp_path: Path) -> None:
    """Without a selection a workbench searches all indexed folders, even folders that are indexed meanwhile."""
    more = tmp_path / "more"
    more.mkdir()
    (more / "ferry.md").write_text("# Ferry\n\nThe ferry leaves at nine.\n", encoding="utf-8")
    data = tmp_path / "data"
    with af.Workbench(data_dir=data, interactive=False) as other, af.Workbench(data_dir=data, interactive=False) as wb:
        other.sources.add(notes)
        assert wb.ask("Where is the oxygen minimum zone?").wait().settings["sources"] == ["notes/"]
        other.sources.add(more / "ferry.md")
        run = wb.ask("When does the ferry leave?").wait()
        assert run.settings["sources"] == ["ferry.md", "notes/"]
        assert "local:ferry.md" in f"{run.response} {[artifact.content for artifact in run.artifacts.values()]}"


def test_workbench_searches_only_selected_sources(notes: Path, tmp_path: Path) -> None:
    """Other sources of the store are named as not searched, in the card and in the home of the workbench."""
    more = tmp_path / "more"
    more.mkdir()
    (more / "ferry.md").write_text("# Ferry\n\nThe ferry leaves at nine.\n", encoding="utf-8")
    data = tmp_path / "data"
    with af.Workbench(data_dir=data, interactive=False) as wb:
        wb.sources.add(more)
    with af.Workbench(data_dir=data, interactive=False) as wb:
        assert f"runs search {more} (1 file)" in repr_of(wb)
        wb.sources.add(notes)
        assert wb.ask("When does the ferry leave?").wait().settings["sources"] == ["notes/"]
        assert f"runs search {notes} (3 files); not {more} (1 file), until wb.sources.add(folder)" in repr_of(wb)


def test_folder_that_became_empty_leaves_the_reference(notes: Path, tmp_path: Path) -> None:
    """A store without remaining files is searched like a store without sources."""
    data = tmp_path / "data"
    with af.Workbench(data_dir=data, interactive=False) as wb:
        wb.sources.add(notes)
    for path in notes.iterdir():
        path.unlink()
    with af.Workbench(data_dir=data, interactive=False) as wb:
        assert wb.ask("What does del do to a name?").wait().settings["sources"] == ["python-reference"]
