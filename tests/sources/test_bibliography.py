"""Works in bibliographies and PDF files, and in the store of Zotero."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.pdf import Line, paragraph, pdf

from artifactflow_nb.core.works import Work, find_arxiv_id, find_doi, merge_works, to_bibtex, with_keys
from artifactflow_nb.errors import UsageError
from artifactflow_nb.sources.bibliography import cited_works
from artifactflow_nb.sources.formats.bibliography import read_bibtex, read_csl, read_ris
from artifactflow_nb.sources.formats.pdf import read_pdf
from artifactflow_nb.sources.formats.sections import UnreadableFile
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.sources.rows import works_of

BIBTEX = r"""
@string{jb = "Journal of Birds"}
@comment{ignored}
@article{muller2020,
  author = {M{\"u}ller, J{\"o}rg and {World Health Organization} and van der Berg, Anna and Jos{\'e} Garc{\'\i}a
            and Knuth, Jr., Donald E. and others},
  title = {The {DNA} of \textit{Ardea} herons \& otters: an $\alpha$ study, 50\% more},
  journal = jb, year = 2020, month = jan, doi = {https://doi.org/10.1000/ABC\_d}, pages = {1--10}, volume = 3,
}
@misc{preprint, title = {Fine}, eprint = {2101.00001v2}, archivePrefix = {arXiv}, author = {Doe, J.}}
@report{charite, title = {RETRACTED: Bad}, author = {{Charit{\'e} -- Universit{\"a}tsmedizin}}, date = {2021-05-03}}
"""


def test_bibtex_with_accents_and_corporate_authors() -> None:
    article, preprint, report = read_bibtex(BIBTEX).works
    assert article.authors == (
        "Jörg Müller", "World Health Organization", "Anna van der Berg", "José García", "Donald E. Knuth Jr.",
    )  # fmt: skip
    assert article.title == "The DNA of Ardea herons & otters: an α study, 50% more"
    assert (article.key, article.year, article.venue, article.doi) == (
        "muller2020", 2020, "Journal of Birds", "10.1000/abc_d",
    )  # fmt: skip
    assert article.item["issued"] == {"date-parts": [[2020, 1]]}
    assert article.item["page"] == "1-10"
    assert article.item["author"][1] == {"literal": "World Health Organization"}
    assert (preprint.arxiv_id, preprint.authors, preprint.is_retracted) == ("2101.00001", ("J. Doe",), False)
    assert (report.authors, report.year, report.is_retracted) == (("Charité – Universitätsmedizin",), 2021, True)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"\O{}rsted, Hans", "Hans Ørsted"),
        (r"\'Alvarez, Ana", "Ana Álvarez"),
        (r"\v{C}ech, Eduard", "Eduard Čech"),
        (r"\v Cech, Eduard", "Eduard Čech"),
        (r"\AA str\"om, Karl", "Karl Åström"),
        (r"Mu\~noz, Ana", "Ana Muñoz"),
        (r"Ana Mu\~{n}oz", "Ana Muñoz"),
        (r"Mart{\'\i}nez, Jos\'e", "José Martínez"),
        (r"J.~K. Rowling", "J. K. Rowling"),
        (r"{\L}ukasiewicz, Jan", "Jan Łukasiewicz"),
        (r"a, b, c, d, e", "c d e a b"),
    ],
)
def test_bibtex_names_keep_their_letters(written: str, read: str) -> None:
    """The result does not depend on the first author or on the case of field names."""
    title = r"A \texttt{del} \href{http://a.example}{link}"
    (work,) = read_bibtex(f"@Article{{k, Title = {{{title}}}, Author = {{Doe, J. and {written}}}}}").works
    assert work.authors == ("J. Doe", read)
    assert work.title == "A del link"


def test_bibtex_is_written_as_it_was_read() -> None:
    works = read_bibtex(BIBTEX).works
    again = read_bibtex(to_bibtex(works)).works
    for before, after in zip(works, again, strict=True):
        for name in ("key", "title", "authors", "year", "venue", "doi", "arxiv_id"):
            assert getattr(after, name) == getattr(before, name)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Just a text.", "has no entry of a bibliography"),
        ("@article{a, title = {never closed", "has no entry of a bibliography: the entry 'a' in line 1 cannot be read"),
        ("{" * 100_000, "has no entry of a bibliography"),
        ("@article{a" + "{" * 20_000, "cannot be read"),
    ],
)
def test_broken_bibtex_is_a_clear_error(text: str, problem: str) -> None:
    with pytest.raises(UnreadableFile, match=problem):
        read_bibtex(text)


def test_bad_entries_of_bibtex_are_listed() -> None:
    """Valid entries are read, and the problem names the others."""
    text = "@article{a, title={A}}\n@book{b, title = {Open\n@article{c, title={C}}\n@article{a, title={Again}}\n"
    found = read_bibtex(text)
    assert [work.key for work in found.works] == ["a", "c"]
    assert found.truncation == "the entry 'b' in line 2, the repeated key 'a' in line 4 cannot be read"


@pytest.mark.parametrize(
    "title", [r"\newcommand{\x}{\x\x}\x", r"\input{/etc/passwd}", r"\'", "$x", "{" * 50 + "}" * 50]
)
def test_hostile_latex_is_text(title: str) -> None:
    """Nothing is executed or opened."""
    (work,) = read_bibtex(f"@misc{{k, title = {{{title}}}, note = {{n}}}}").works
    assert "root:" not in str(work.item)


def test_ris_is_read_with_names_dates_and_pages() -> None:
    text = (
        "TY  - JOUR\nAU  - Müller, Jörg\nAU  - Knuth, Donald E., Jr.\nAU  - World Health Organization\nTI  - Herons\n"
        "JO  - Journal of Birds\nPY  - 2020/05/03/\nSP  - 1\nEP  - 10\nDO  - 10.1000/x\n"
        "AB  - First line\nsecond line.\n"
        "KW  - birds\nER  - \n\nTY  - BOOK\nTI  - Never ended\n"
    )
    found = read_ris(text)
    (work,) = found.works
    assert work.authors == ("Jörg Müller", "Donald E. Knuth Jr.", "World Health Organization")
    assert (work.title, work.year, work.venue, work.doi) == ("Herons", 2020, "Journal of Birds", "10.1000/x")
    assert (work.abstract, work.item["page"]) == ("First line second line.", "1-10")
    assert found.truncation == "the entry in line 16, which has no end, cannot be read"
    with pytest.raises(UnreadableFile, match="no entry of a bibliography in RIS"):
        read_ris("no RIS")


def test_csl_json_keeps_all_fields() -> None:
    item = '{"id": 7, "type": "chapter", "title": "T", "translator": [{"family": "X"}]}'
    (work,) = read_csl(f"[{item}]").works
    assert (work.key, work.item["translator"]) == ("7", [{"family": "X"}])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "its JSON is broken in line 1"),
        ("[" * 100_000, "its JSON is broken"),
        ('{"a": 1}', "no item with a type and a title"),
        ('[{"type": "book", "title": "T", "author": "Doe"}]', "no item with a type and a title"),
        ('[{"type": "book", "title": "T", "issued": {"date-parts": 7}}]', "no item with a type and a title"),
        ("null", "no item"),
    ],
)
def test_other_json_is_a_clear_error(text: str, problem: str) -> None:
    with pytest.raises(UnreadableFile, match=problem):
        read_csl(text)


@pytest.mark.parametrize(
    ("text", "doi"),
    [
        ("see https://doi.org/10.1000/ABC.", "10.1000/abc"),
        ("(doi:10.1016/S0140-6736(20)30183-5).", "10.1016/s0140-6736(20)30183-5"),
        ("10.1000/a; next", "10.1000/a"),
        ("no 10.5 here", ""),
    ],
)
def test_doi_in_a_text(text: str, doi: str) -> None:
    assert find_doi(text) == doi


def test_arxiv_id_in_a_text() -> None:
    assert find_arxiv_id("arXiv:1706.03762v5 [cs.CL]") == "1706.03762"
    assert find_arxiv_id("https://arxiv.org/abs/hep-th/9901001") == "hep-th/9901001"
    assert find_arxiv_id("10.48550/arXiv.2101.00001") == "2101.00001"
    assert find_arxiv_id("version 1706.03762") == ""


def test_descriptions_of_one_work_are_merged() -> None:
    """The bibliography wins, and the PDF fills its gaps."""
    listed = Work.of({"id": "a", "type": "article", "title": "The Herons", "issued": {"date-parts": [[2020]]}})
    in_pdf = Work.of({"type": "document", "title": "the herons.", "DOI": "10.1000/X", "abstract": "Short."})
    other = Work.of({"id": "b", "type": "book", "title": "The Herons", "issued": {"date-parts": [[1999]]}})
    merged = merge_works([("p", in_pdf), ("a", listed), ("b", other)])
    assert [addresses for addresses, _ in merged] == [["a", "p"], ["b"]]
    work = merged[0][1]
    assert (work.key, work.title, work.doi, work.abstract) == ("a", "The Herons", "10.1000/x", "Short.")


def test_keys_are_unique_and_valid() -> None:
    works = [Work({"title": "On the Herons", "author": [{"family": "Müller"}], "issued": {"date-parts": [[2020]]}})] * 2
    works += [Work({"id": "a b", "title": "X"}), Work({}), Work({"id": "Smith:2020"})]
    assert [work.key for work in with_keys(works)] == [
        "muller2020herons",
        "muller2020herons-2",
        "x",
        "work",
        "Smith:2020",
    ]


# --- PDF files -------------------------------------------------------------------------------------------------------

ARTICLE = [
    Line(72, 770, "Journal of Birds 12 (2019) 1-10. https://doi.org/10.1000/jb.7", 8),
    Line(72, 720, "Herons and otters of", 20),
    Line(72, 698, "the northern lakes", 20),
    Line(72, 670, "Jörg Müller1, Anna van Berg2 and José García*", 11),
    Line(72, 655, "University of the North", 10),
    Line(72, 620, "Abstract", 11),
    *paragraph("We counted herons and otters at ten lakes, and found that the num-", "ber of both doubled.", y=606),
    Line(72, 570, "Keywords: herons, otters", 11),
    *paragraph("1 Introduction", "Herons are birds.", y=540),
]


def test_work_of_a_pdf_is_found_on_its_first_page() -> None:
    work = read_pdf(pdf(ARTICLE, "Second page"), 60).work
    assert work is not None
    assert work.title == "Herons and otters of the northern lakes"
    assert work.authors == ("Jörg Müller", "Anna van Berg", "José García")
    assert (work.doi, work.year, work.is_retracted) == ("10.1000/jb.7", 2019, False)
    assert work.abstract == "We counted herons and otters at ten lakes, and found that the number of both doubled."


def test_retracted_pdf_is_marked() -> None:
    page = [Line(72, 760, "RETRACTED ARTICLE: Herons", 20), *paragraph("Herons", "are", "no", "longer", "seen")]
    work = read_pdf(pdf(page), 60).work
    assert work is not None
    assert work.is_retracted


def test_notes_without_a_title_are_no_work() -> None:
    assert read_pdf(pdf("Only a line."), 60).work is None


# --- sources ---------------------------------------------------------------------------------------------------------


async def listed(sources: SourceManager) -> dict[str, Work]:
    return dict(await sources._database.read(works_of))


async def test_bibliographies_are_sources(sources: SourceManager, tmp_path: Path) -> None:
    """Each entry is a section, which is found by its abstract."""
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "refs.bib").write_text(
        BIBTEX + "@misc{z, title={Zebras}, abstract={They gallop at dawn.}}", encoding="utf-8"
    )
    (folder / "more.ris").write_text("TY  - BOOK\nTI  - Otters\nID  - o1\nER  - \n", encoding="utf-8")
    (folder / "paper.pdf").write_bytes(pdf(ARTICLE))
    (folder / "config.json").write_text("{}", encoding="utf-8")
    added = await sources.add_folder(folder)
    assert len(added.sources) == 3
    assert added.unsupported == {".json": 1}
    (hit,) = await sources.search("gallop at dawn", limit=1)
    assert hit.address.endswith("refs.bib#z")
    works = await listed(sources)
    assert [address.partition("/")[2] for address in works] == [
        "more.ris#o1", "paper.pdf", "refs.bib#muller2020", "refs.bib#preprint", "refs.bib#charite", "refs.bib#z",
    ]  # fmt: skip
    (folder / "refs.bib").unlink()
    await sources.add_folder(folder)
    assert len(await listed(sources)) == 2


async def test_csl_json_is_read_if_it_is_added_by_itself(sources: SourceManager, tmp_path: Path) -> None:
    path = tmp_path / "refs.json"
    path.write_text('[{"id": "a", "type": "book", "title": "Herons"}, {"id": "b"}]', encoding="utf-8")
    added = await sources.add_folder(path)
    assert str(added.skipped[0]) == "refs.json is incomplete: item 2 cannot be read"
    assert list(await listed(sources)) == ["local:refs.json#a"]
    (tmp_path / "config.json").write_text('{"a": 1}', encoding="utf-8")
    with pytest.raises(UsageError, match=r"config\.json is not CSL-JSON"):
        await sources.add_folder(tmp_path / "config.json")


def zotero(folder: Path) -> Path:
    """A database with the tables of Zotero that are read, a PDF in its storage, and a deleted item."""
    path = folder / "zotero.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
            CREATE TABLE itemTypes (itemTypeID INTEGER PRIMARY KEY, typeName TEXT);
            CREATE TABLE items (itemID INTEGER PRIMARY KEY, itemTypeID INT, key TEXT);
            CREATE TABLE fields (fieldID INTEGER PRIMARY KEY, fieldName TEXT);
            CREATE TABLE itemDataValues (valueID INTEGER PRIMARY KEY, value);
            CREATE TABLE itemData (itemID INT, fieldID INT, valueID INT);
            CREATE TABLE creatorTypes (creatorTypeID INTEGER PRIMARY KEY, creatorType TEXT);
            CREATE TABLE creators (creatorID INTEGER PRIMARY KEY, firstName TEXT, lastName TEXT, fieldMode INT);
            CREATE TABLE itemCreators (itemID INT, creatorID INT, creatorTypeID INT, orderIndex INT);
            CREATE TABLE itemAttachments (itemID INT, parentItemID INT, contentType TEXT, path TEXT);
            CREATE TABLE deletedItems (itemID INT);
            CREATE TABLE retractedItems (itemID INT, data TEXT);
            INSERT INTO itemTypes VALUES (1, 'journalArticle'), (2, 'attachment'), (3, 'book');
            INSERT INTO items VALUES (1, 1, 'AAAA'), (2, 2, 'BBBB'), (3, 3, 'CCCC'), (4, 3, 'DDDD');
            INSERT INTO fields VALUES (1, 'title'), (2, 'DOI'), (3, 'date'), (4, 'publicationTitle');
            INSERT INTO itemDataValues VALUES (1, 'Herons of the lake'), (2, '10.1000/Z'), (3, '2018-05-00 May 2018'),
                (4, 'Journal of Birds'), (5, 'Otters'), (6, 'Deleted');
            INSERT INTO itemData VALUES (1, 1, 1), (1, 2, 2), (1, 3, 3), (1, 4, 4), (3, 1, 5), (4, 1, 6);
            INSERT INTO creatorTypes VALUES (1, 'author');
            INSERT INTO creators VALUES (1, 'Jörg', 'Müller', 0), (2, '', 'World Health Organization', 1);
            INSERT INTO itemCreators VALUES (1, 2, 1, 1), (1, 1, 1, 0);
            INSERT INTO itemAttachments VALUES (2, 1, 'application/pdf', 'storage:herons.pdf');
            INSERT INTO deletedItems VALUES (4);
            INSERT INTO retractedItems VALUES (3, '{}');
        """)
    (folder / "storage" / "BBBB").mkdir(parents=True)
    (folder / "storage" / "BBBB" / "herons.pdf").write_bytes(pdf("Herons nest in trees."))
    return path


async def test_zotero_is_read_while_it_is_in_use(sources: SourceManager, tmp_path: Path) -> None:
    """A copy is read during an open transaction of Zotero; the attached PDF is a source of the same work."""
    path = zotero(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        db.execute("UPDATE itemDataValues SET value = 'Changed' WHERE valueID = 5")
        added = await sources.add_folder(tmp_path)
        db.execute("ROLLBACK")
    assert sorted(source.source_id.partition("/")[2] for source in added.sources) == [
        "storage/BBBB/herons.pdf", "zotero.sqlite",
    ]  # fmt: skip
    works = {address.partition("#")[2]: work for address, work in (await listed(sources)).items()}
    article, book = works["AAAA"], works["CCCC"]
    assert article.authors == ("Jörg Müller", "World Health Organization")
    assert (article.title, article.doi, article.year, article.venue) == (
        "Herons of the lake", "10.1000/z", 2018, "Journal of Birds",
    )  # fmt: skip
    assert article.item["custom"]["files"] == [str(tmp_path / "storage" / "BBBB" / "herons.pdf")]
    assert (book.title, book.is_retracted) == ("Otters", True)
    (paper,) = [source.source_id for source in added.sources if source.source_id.endswith(".pdf")]
    text = f"Yes. [1]\n\n**Sources**\n\n1. Herons — local:{paper}#page-1"
    cited = await sources._database.read(lambda db: cited_works(db, text))
    assert [(work.title, work.doi) for work in cited.values()] == [("Herons of the lake", "10.1000/z")]


@pytest.mark.parametrize("data", [b"SQLite format 3\0" + b"x" * 200, b"nonsense"])
async def test_broken_zotero_is_a_clear_error(sources: SourceManager, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "zotero.sqlite").write_bytes(data)
    with pytest.raises(UsageError, match=r"zotero\.sqlite (is not a Zotero database|cannot be read now)"):
        await sources.add_folder(tmp_path / "zotero.sqlite")


async def test_other_database_is_no_zotero(sources: SourceManager, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "zotero.sqlite")) as db:
        db.execute("CREATE TABLE t (a)")
    with pytest.raises(UsageError, match=r"zotero\.sqlite is not a Zotero database \(no such table"):
        await sources.add_folder(tmp_path / "zotero.sqlite")
