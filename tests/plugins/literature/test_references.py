"""References of a report: BibTeX, CSL-JSON, and citations in a style."""

import io
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import docx
import pytest
from support.pdf import Line, paragraph, pdf

import artifactflow_nb as af
from artifactflow_nb.export.document import ExportDocument
from artifactflow_nb.plugins.literature.citation_style import in_citation_style
from artifactflow_nb.plugins.literature.works import Work, with_keys
from artifactflow_nb.testing import FakeSearch, SearchHit

BIBTEX = r"""
@article{muller2020, author = {M{\"u}ller, J{\"o}rg and {World Health Organization}}, title = {Herons of the lake},
  journal = {Journal of Birds}, year = 2020, doi = {10.1000/abc}, pages = {1--10}, volume = 3}
@book{unused, title = {Unused}}
"""
PAPER = [
    Line(72, 770, "https://doi.org/10.1000/ABC", 8),
    Line(72, 720, "Herons of the lake", 20),
    *paragraph("Herons wait in shallow water for fish.", "They nest in tall trees.", "Otters do not.", y=600),
]
UNREAD = "This run has not read this source."
REPORT = """# Herons

Herons wait in shallow water [1]. They *nest* in trees [1, 3], as `x[1]` says [2] and [9].

## Sources

1. Herons: page 1 — local:papers/herons.pdf#page-1
2. Notes: Lake — local:papers/notes.md#lake
3. Otters — https://doi.org/10.1000/zzz
"""


@pytest.fixture
def report(tmp_path: Path) -> Iterator[tuple[af.Workbench, af.Run]]:
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "refs.bib").write_text(BIBTEX, encoding="utf-8")
    (folder / "herons.pdf").write_bytes(pdf(PAPER))
    (folder / "notes.md").write_text("# Lake\n\nHerons nest here.", encoding="utf-8")
    call = af.ToolCall("create_artifact", {"id": "report", "title": "Herons", "content": REPORT})
    with af.Workbench(
        model=af.ScriptedModel([call, "See the report."]),
        data_dir=tmp_path / "data",
        approvals="approve",
        interactive=False,
    ) as wb:
        wb.sources.add(folder)
        yield wb, wb.ask("Where do herons wait?").wait()


def test_works_df_has_a_row_for_each_work(report: tuple[af.Workbench, af.Run]) -> None:
    """The PDF and its entry in the bibliography are one work."""
    frame = report[0].literature.works_df()
    assert frame["key"].tolist() == ["muller2020", "unused"]
    work = frame.iloc[0]
    assert (work["title"], work["authors"]) == ("Herons of the lake", "Jörg Müller; World Health Organization")
    assert (work["year"], work["venue"], work["doi"]) == (2020, "Journal of Birds", "10.1000/abc")
    assert work["addresses"] == "local:papers/refs.bib#muller2020 local:papers/herons.pdf"
    assert (work["n_sources"], bool(work["is_retracted"])) == (2, False)
    assert frame["authors"].isna().tolist() == [False, True]


def test_references_as_bibtex_and_csl(report: tuple[af.Workbench, af.Run]) -> None:
    """A PDF has the entry of the bibliography, a note has its title, and an address with a DOI has this DOI."""
    _, run = report
    bibtex = run.to_bibtex()
    assert bibtex == run.artifacts["report"].to_bibtex()
    assert (
        "@article{muller2020,\n  title = {{Herons of the lake}},\n  author = {Müller, Jörg and {World Health" in bibtex
    )
    assert "title = {{Notes: Lake}}" in bibtex
    assert "doi = {10.1000/zzz}" in bibtex
    items = run.to_csl()
    assert items[0]["id"] == "muller2020"
    assert [item["type"] for item in items] == ["article-journal", "document", "webpage"]
    assert items[2]["URL"] == "https://doi.org/10.1000/zzz"


def test_source_listed_by_its_address_has_the_title_that_is_known(tmp_path: Path) -> None:
    """The title comes from a search or a read page, or else from the index, or else the address is the title.

    Two sections of a file are one work.
    """
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "lake.md").write_text("# Lake\n\nHerons nest here.\n\n## Islands\n\nThree.", encoding="utf-8")
    lake, islands = "local:notes/lake.md", "local:notes/lake.md#islands"
    found, unknown = "https://otters.example/a", "https://otters.example/b"
    listed = "".join(f"{n}. {address}\n" for n, address in enumerate((lake, islands, found, unknown), 1))
    turns = [
        af.ToolCall("call_subagent", {"agent_name": "search_agent", "instruction": "Find otters."}),
        af.ToolCall("web_search", {"query": "otters"}),
        "Found.",
        f"They nest [1].\n\n## Sources\n\n{listed}",
    ]
    search = FakeSearch([SearchHit("Otters & co", found, snippet="They swim.")])
    with af.Workbench(
        model=af.ScriptedModel(turns), search=search, data_dir=tmp_path / "data", approvals="approve", interactive=False
    ) as wb:
        wb.sources.add(tmp_path / "notes")
        items = wb.ask("Where do otters swim?").wait().to_csl()
    assert [item["title"] for item in items] == ["Lake", "Otters & co", unknown]


def test_sealed_run_has_the_works_that_it_cites(report: tuple[af.Workbench, af.Run], tmp_path: Path) -> None:
    """The references are those of the run; works that the run does not cite are not in the file."""
    _, run = report
    sealed = af.open_run(run.seal(tmp_path / "run.afrun"))
    assert sealed.to_bibtex() == run.to_bibtex()
    assert sealed.to_csl() == run.to_csl()
    assert sealed.literature.works_df()["key"].tolist() == ["muller2020"]


def test_markdown_in_a_citation_style(report: tuple[af.Workbench, af.Run], tmp_path: Path) -> None:
    """Marks become citations, and the list of sources the bibliography; code and unknown numbers stay."""
    artifact = report[1].artifacts["report"]
    text = artifact.to_markdown(tmp_path / "a.md", style="harvard-cite-them-right").read_text(encoding="utf-8")
    assert "Herons wait in shallow water (Müller and World Health Organization, 2020)." in text
    assert "`x[1]` says" in text
    assert "and [9]." in text
    listed = text.partition("## Sources")[2]
    assert "local:" not in text
    assert (
        "Müller, J. and World Health Organization (2020) “Herons of the lake”, *Journal of Birds*, 3, pp. 1–10."
        in listed
    )
    assert listed.count(UNREAD) == 3


def test_unread_sources_are_marked_in_every_export(report: tuple[af.Workbench, af.Run], tmp_path: Path) -> None:
    """The model cites without reading; the marks stay in Markdown, Word, BibTeX, CSL-JSON and a sealed file."""
    _, run = report
    sealed = af.open_run(run.seal(tmp_path / "run.afrun"))
    for name, artifact in (("run", run.artifacts["report"]), ("sealed", sealed.artifacts["report"])):
        markdown = artifact.to_markdown(tmp_path / f"{name}.md").read_text(encoding="utf-8")
        assert markdown.replace(f" *{UNREAD}*", "") == REPORT
        assert [line for line in markdown.splitlines() if line.startswith("3.")] == [
            f"3. Otters — https://doi.org/10.1000/zzz *{UNREAD}*"
        ]
        path = artifact.to_docx(tmp_path / f"{name}.docx")
        texts = [block.text for block in docx.Document(io.BytesIO(path.read_bytes())).paragraphs]
        assert sum(UNREAD in text for text in texts) == 3
        assert artifact.to_bibtex().count(f"note = {{{UNREAD}}}") == 3
        assert [item["note"] for item in artifact.to_csl()] == [UNREAD] * 3


def test_read_sources_are_not_marked(tmp_path: Path) -> None:
    """A work that the run read under one address is read under each of its addresses."""
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "refs.bib").write_text(BIBTEX, encoding="utf-8")
    text = (
        "Herons [1].\n\n| No. | Source |\n|---|---|\n| [1] | https://doi.org/10.1000/abc |\n| [2] | https://e.org/b |\n"
    )
    turns = [
        af.ToolCall("call_subagent", {"agent_name": "crawl_agent", "instruction": "Read about herons."}),
        af.ToolCall("web_fetch", {"urls": ["local:papers/refs.bib#muller2020"]}),
        "Found.",
        af.ToolCall("create_artifact", {"id": "report", "title": "Herons", "content": text}),
        "See the report.",
    ]
    with af.Workbench(
        model=af.ScriptedModel(turns), data_dir=tmp_path / "data", approvals="approve", interactive=False
    ) as wb:
        wb.sources.add(tmp_path / "papers")
        artifact = wb.ask("Where do herons nest?").wait().artifacts["report"]
        assert ["note" in item for item in artifact.to_csl()] == [False, True]
        lines = artifact.to_markdown(tmp_path).read_text(encoding="utf-8").splitlines()
    assert lines[-1] == f"| [2] | https://e.org/b *{UNREAD}* |"


def styled(*items: dict[str, object]) -> str:
    """A text that cites each item, in a style."""
    sources = "".join(f"\n{n}. T: https://e.org/{n}" for n in range(1, len(items) + 1))
    text = f"{' '.join(f'[{n}]' for n in range(1, len(items) + 1))}\n\n## Sources\n{sources}\n"
    document = ExportDocument("a", "A", text, text, "user", datetime(2026, 1, 1, tzinfo=UTC), "a", "", {})
    works = dict(enumerate(with_keys(map(Work.of, items)), 1))
    return in_citation_style(document, works, "harvard-cite-them-right").markdown


def test_equal_citations_have_letters() -> None:
    """The letters begin anew for each author and year, in the order of the list, even for works without a date."""
    years = [("Doe", 2020, "B"), ("Doe", 2020, "A"), ("Roe", 2020, "C"), ("Roe", 2020, "D"), ("Poe", 2020, "E")]
    items = [
        {"type": "book", "title": title, "author": [{"family": name}], "issued": {"date-parts": [[year]]}}
        for name, year, title in years
    ]
    text = styled(*items, *({"type": "book", "title": title, "author": [{"literal": "SAP"}]} for title in "FG"))
    assert text.startswith(
        "(Doe, 2020b) (Doe, 2020a) (Roe, 2020a) (Roe, 2020b) (Poe, 2020) (SAP, no date a) (SAP, no date b)"
    )
    assert "Doe (2020a) *A*" in text


def test_names_in_chinese_and_early_years_in_a_style() -> None:
    author = [{"family": "李", "given": "世民"}, {"family": "秦", "given": "叔宝"}]
    text = styled(
        {"type": "book", "title": "沙漠", "author": author, "issued": {"date-parts": [[476]]}},
        {"type": "book", "title": "T", "author": [{"family": "Doe"}], "issued": {"date-parts": [[-44]]}},
    )
    assert text.startswith("(李世民 and 秦叔宝, 476 AD) (Doe, 44 BC)")


def test_word_in_a_citation_style(report: tuple[af.Workbench, af.Run], tmp_path: Path) -> None:
    path = report[1].artifacts["report"].to_docx(tmp_path / "a.docx", style="harvard-cite-them-right")
    texts = [block.text for block in docx.Document(io.BytesIO(path.read_bytes())).paragraphs]
    assert any(text.startswith("Herons wait in shallow water (Müller and World") for text in texts)
    assert any(text.startswith("Müller, J. and World Health Organization (2020)") for text in texts)


def test_style_of_a_file(report: tuple[af.Workbench, af.Run], tmp_path: Path) -> None:
    """A CSL file with a numeric style numbers the works in the order of the citations."""
    style = tmp_path / "numbers.csl"
    style.write_text(
        '<style xmlns="http://purl.org/net/xbiblio/csl" class="in-text" version="1.0"><info><title>N</title>'
        '<id>http://example.org/n</id></info><citation><layout prefix="[" suffix="]" delimiter=",">'
        '<text variable="citation-number"/></layout></citation><bibliography><layout>'
        '<text variable="citation-number" suffix=". "/><text variable="title"/></layout></bibliography></style>',
        encoding="utf-8",
    )
    text = report[1].artifacts["report"].to_markdown(tmp_path / "a.md", style=style).read_text(encoding="utf-8")
    assert "shallow water [1\\]. They *nest* in trees [1,2\\], as `x[1]` says [3\\]" in text


def test_unusable_style_is_a_clear_error(
    report: tuple[af.Workbench, af.Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The style is unknown or not XML, the text lists no sources, or the library is missing; nothing is written."""
    artifact = report[1].artifacts["report"]
    (tmp_path / "bad.csl").write_text("<style", encoding="utf-8")
    for style in ("no-such-style", tmp_path / "bad.csl"):
        with pytest.raises(af.errors.UsageError, match="cannot be used: .*Pass the path of a CSL file"):
            artifact.to_markdown(tmp_path / "a.md", style=style)
    with pytest.raises(af.errors.UsageError, match="The text lists no sources"):
        artifact.edit("No sources.").to_markdown(tmp_path / "a.md", style="harvard-cite-them-right")
    monkeypatch.setitem(sys.modules, "citeproc", None)
    with pytest.raises(af.errors.UsageError, match=r"not installed: pip install 'artifactflow-nb\[cite\]'"):
        artifact.to_markdown(tmp_path / "a.md", style="harvard-cite-them-right")
    assert not (tmp_path / "a.md").exists()


def test_bibtex_without_its_library_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bibtexparser", None)
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "refs.bib").write_text(BIBTEX, encoding="utf-8")
    (tmp_path / "papers" / "a.md").write_text("# A\n\nText.", encoding="utf-8")
    with af.Workbench(model=af.OfflineModel(), data_dir=tmp_path / "data", interactive=False) as wb:
        (skipped,) = wb.sources.add(tmp_path / "papers").skipped
    assert "refs.bib was not read: Reading BibTeX needs a library" in str(skipped)
    assert "pip install 'artifactflow-nb[cite]'" in str(skipped)
