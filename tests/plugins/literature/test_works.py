"""Works in bibliographies and PDF files, and in the store of Zotero."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from support.pdf import Line, paragraph, pdf

from artifactflow_nb.errors import UsageError
from artifactflow_nb.plugins.literature import LITERATURE
from artifactflow_nb.plugins.literature.bibliographies import read_bibtex, read_csl, read_ris
from artifactflow_nb.plugins.literature.cited_works import cited_works
from artifactflow_nb.plugins.literature.works import Work, find_arxiv_id, find_doi, merge_works, to_bibtex, with_keys
from artifactflow_nb.sources.citation_marks import listed_sources
from artifactflow_nb.sources.formats.sections import UnreadableFile
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.sources.rows import load_metadata
from artifactflow_nb.sources.values import Evidence
from artifactflow_nb.testing import FakeClock

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
        ("family=Hasselt, given={Hado P.}, prefix=van, useprefix=true", "Hado P. van Hasselt"),
        ("given=Jean, family=Rousse, prefix=de la useprefix=false", "Jean de la Rousse"),
        ("Roe, % a comment\n Rita", "Rita Roe"),
        ("{Advanced Air and Ground Research Team}", "Advanced Air and Ground Research Team"),
        (r"Chung{-}Kil Hur", "Chung-Kil Hur"),
        ("李, 世民", "李世民"),
    ],
)
def test_bibtex_names_keep_their_letters(written: str, read: str) -> None:
    """The result does not depend on the first author or on the case of field names."""
    title = r"A \texttt{del} \href{http://a.example}{link}"
    (work,) = read_bibtex(f"@Article{{k, Title = {{{title}}}, Author = {{Doe, J. and {written}}}}}").works
    assert work.authors == ("J. Doe", read)
    assert work.title == "A del link"


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ({"author": [{"family": "Procter and Gamble"}]}, "author = {{Procter and Gamble}},"),
        ({"author": [{"family": "World Health Organization", "given": ""}]}, "author = {{World Health Organization}},"),
        ({"author": [{"family": "Ortega y Gasset", "given": "José"}]}, "author = {{Ortega y Gasset}, José},"),
        ({"author": [{"family": "King", "given": "Martin, Jr."}]}, "author = {King, {Martin, Jr.}},"),
        ({"author": [{"family": "de la Cruz", "given": "Ana"}]}, "author = {de la Cruz, Ana},"),
        (
            {"author": [{"family": "B", "given": "A", "dropping-particle": "de", "non-dropping-particle": "van"}]},
            "author = {de van B, A},",
        ),
        ({"title": "An open { and $5"}, r"title = {{An open $\lbrace$ and \$5}},"),
        ({"issued": {"literal": "in press"}}, "year = {in press},"),
    ],
)
def test_bibtex_reads_as_what_was_exported(item: dict[str, Any], line: str) -> None:
    """BibTeX splits names at `and`, commas and lower-case words, and counts escaped braces, too."""
    written = to_bibtex([Work.of({"id": "a", "type": "book", "title": "T", **item})])
    assert f"  {line}\n" in written
    (work,) = read_bibtex(written).works
    assert (work.title, work.authors) == (item.get("title", "T"), Work.of(item).authors)


@pytest.mark.parametrize(
    ("fields", "authors", "arxiv_id", "url"),
    [
        ("author = {Doe, Jane; Roe, Rita}", ("Jane Doe", "Rita Roe"), "", None),
        ("author = {Jane Doe, Rita Roe, Max Poe, Ann Noe}", ("Jane Doe", "Rita Roe", "Max Poe", "Ann Noe"), "", None),
        ("eprint = {https://arxiv.org/abs/2101.00001v2}", (), "2101.00001", None),
        ("eprint = {arXiv:hep-th/9901001}, archiveprefix = {arXiv}", (), "hep-th/9901001", None),
        ("journal = {arXiv preprint arXiv:2101.00001}", (), "2101.00001", None),
        ("eprint = {2101.00001}, eprinttype = {jstor}", (), "", None),
        (r"howpublished = {\url{https://example.org/a\_b}}", (), "", "https://example.org/a_b"),
    ],
)
def test_bibtex_of_other_programs(fields: str, authors: tuple[str, ...], arxiv_id: str, url: str | None) -> None:
    (work,) = read_bibtex(f"@misc{{a, title = {{50% of \\'a}}, {fields}}}").works
    assert (work.title, work.authors, work.arxiv_id, work.item.get("URL")) == ("50% of á", authors, arxiv_id, url)


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
    """Valid entries are read, even entries with a repeated key; the problem names the invalid entries."""
    text = "@article{a, title={A}}\n@book{b, title = {Open\n@article{c, title={C}}\n@article{a, title={Again}}\n"
    found = read_bibtex(text)
    assert [(work.key, work.title) for work in found.works] == [("a", "A"), ("c", "C"), ("a", "Again")]
    assert found.truncation == "the entry 'b' in line 2 cannot be read"


@pytest.mark.parametrize(
    "text",
    [
        "@string{a0 = {x}}"
        + "".join(f"@string{{a{n + 1} = a{n} # a{n}}}" for n in range(60))
        + "@misc{m, title = a60}",
        "".join(f"@misc{{k{n}, title = {{T}}, xdata = {{{','.join(f'k{m}' for m in range(40))}}}}}" for n in range(40)),
        "@misc{m, title = {T}, author = {" + " and ".join(["x"] * 20_000) + "}}",
    ],
)
def test_bibtex_does_not_multiply(text: str) -> None:
    """Macros of macros and entries that name each other do not multiply."""
    works = read_bibtex(text).works
    assert len(str(works[0].item)) < 2_000_000


def test_first_of_a_repeated_field_counts() -> None:
    (work,) = read_bibtex("@misc{a, title = {T}, note = {One}, note = {Two}}").works
    assert work.item["note"] == "One"


def test_bibtex_values_are_joined_from_macros() -> None:
    text = '@string{j = "J"}\n@string{jb = j # " of " # {Birds # 1}}\n@misc{a, title = "On " # {x # "y"}, journal = JB}'
    (work,) = read_bibtex(f"Mail me @ home.\n{text}").works
    assert (work.title, work.venue) == ('On x # "y"', "J of Birds # 1")
    assert read_bibtex("@article{a, title={T}, journal = unknown}").works[0].venue == "unknown"


def test_bibtex_inherits_from_crossref_and_xdata() -> None:
    """An entry does not inherit title, DOI and pages, nor the date if the entry has a date of its own."""
    text = """
        @incollection{a, title = {Child}, author = {Doe, Jane}, crossref = {B}, xdata = {x, missing}}
        @incollection{c, title = {Dated}, date = {1983}, crossref = {b}}
        @book{b, title = {Parent}, author = {Roe, R.}, editor = {Poe, P.}, date = {1982/1984}, doi = {10.1000/b},
            pages = {9}, publisher = {Own}, crossref = {a}}
        @xdata{x, publisher = {Press}, location = {Lake}, xdata = {x}}
    """
    child, dated, parent = read_bibtex(text).works
    assert (child.title, child.venue, child.authors, child.doi) == ("Child", "Parent", ("Jane Doe",), "")
    assert (child.item["publisher"], child.item["publisher-place"], child.item["editor"][0]["family"]) == (
        "Press", "Lake", "Poe",
    )  # fmt: skip
    assert "page" not in child.item
    assert (child.item["issued"], dated.item["issued"]) == (
        {"date-parts": [[1982], [1984]]}, {"date-parts": [[1983]]},
    )  # fmt: skip
    assert (dated.authors, parent.title) == (("P. Poe",), "Parent")


@pytest.mark.parametrize(
    ("fields", "issued"),
    [
        ("date = {2019-05/2020}", {"date-parts": [[2019, 5], [2020]]}),
        ("date = {2019/2021}", {"date-parts": [[2019], [2021]]}),
        ("date = {1999/..}", {"date-parts": [[1999]]}),
        ("date = {2001-21}", {"date-parts": [[2001]], "season": 1}),
        ("date = {1723~}", {"date-parts": [[1723]], "circa": True}),
        ("date = {-0043-03-15}", {"date-parts": [[-44, 3, 15]]}),
        ("date = {2004-04-05T14:34:00}", {"date-parts": [[2004, 4, 5]]}),
        ("date = {2000-XX}", {"date-parts": [[2000]]}),
        ("date = {2019/05/03}", {"date-parts": [[2019, 5, 3]]}),
        ("year = {476}", {"date-parts": [[476]]}),
        ("year = {44 BC}", {"date-parts": [[-44]]}),
        ("year = {-44}", {"date-parts": [[-44]]}),
        ("year = {1991-92}", {"date-parts": [[1991]]}),
        ("year = 1955, month = may # {~3}", {"date-parts": [[1955, 5, 3]]}),
        ("year = 1999, month = 10 # {~} # jan", {"date-parts": [[1999, 1, 10]]}),
        ("year = {n.d.}", {"literal": "n.d."}),
        ("year = {199X}", {"literal": "199X"}),
    ],
)
def test_dates_of_bibtex(fields: str, issued: dict[str, Any]) -> None:
    (work,) = read_bibtex(f"@misc{{a, title = {{T}}, {fields}}}").works
    assert work.item["issued"] == issued
    assert work.year == (issued["date-parts"][0][0] if "date-parts" in issued else None)
    (again,) = read_bibtex(to_bibtex([work])).works
    assert again.year == work.year


def test_addresses_of_bibtex_are_plain() -> None:
    doi = SICI.replace("<", r"{\textless}").replace(">", "$>$")
    (work,) = read_bibtex(rf"@misc{{a, doi = {{{doi}}}, url = {{https://e.org/~me/a\_b%20c}}, title = {{T}}}}").works
    assert (work.doi, work.item["URL"]) == (SICI.lower(), "https://e.org/~me/a_b%20c")
    (work,) = read_bibtex(r"@misc{a, doi = {10.1000/a{\_}b--c}, title = {T}}").works
    assert work.doi == "10.1000/a_b--c"


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
    with pytest.raises(UnreadableFile, match="no entry in RIS format"):
        read_ris("no RIS")


@pytest.mark.parametrize(
    ("field", "authors"),
    [
        ("Doe, Jane B.; Roe, Rita; Poe, Max", ("Jane B. Doe", "Rita Roe", "Max Poe")),
        ("Jane Doe, Rita Roe, Max Poe", ("Jane Doe", "Rita Roe", "Max Poe")),
        ("Doe, J., Roe, R. A., Poe, M.", ("J. Doe", "R. A. Roe", "M. Poe")),
        ("Doe, Jane and Roe, Rita", ("Jane Doe", "Rita Roe")),
        ("van der Berg, Anna Maria", ("Anna Maria van der Berg",)),
        ("Doe, Jane, Jr.", ("Jane Doe Jr.",)),
        ("Food and Agriculture Organization", ("Food and Agriculture Organization",)),
    ],
)
def test_ris_with_several_authors_in_a_line(field: str, authors: tuple[str, ...]) -> None:
    (work,) = read_ris(f"TY  - JOUR\nTI  - T\nAU  - {field}\nER  - \n").works
    assert work.authors == authors


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ("DA  - Mar 5\nPY  - 2019", "issued", {"date-parts": [[2019]]}),
        ("DA  - 2019/03/05\nPY  - 2020", "issued", {"date-parts": [[2019, 3, 5]]}),
        ("Y1  - 2013/05/28\nPY  - 2013\nDA  - 2014/04/01", "issued", {"date-parts": [[2014, 4, 1]]}),
        ("PY  - 0000\nY1  - 2013", "issued", {"date-parts": [[2013]]}),
        ("SP  - 100-110\nEP  - 110", "page", "100-110"),
        ("SP  - 15\nEP  - 5", "page", "15-5"),
        ("C7  - e1234", "page", "e1234"),
        ("M3  - doi: DOI: 10.1016/j.x.2010.01.001", "DOI", "10.1016/j.x.2010.01.001"),
        ("L3  - 10.1002/x", "DOI", "10.1002/x"),
        ("M3  - Article\nDO  - 10.1002/x", "DOI", "10.1002/x"),
        ("J2  - J. Birds", "container-title", "J. Birds"),
        ("SN  - 978-3-16-148410-0", "ISBN", "978-3-16-148410-0"),
        ("SN  - 1234-567X", "ISSN", "1234-567X"),
        ("AU  - van der Berg A.B.", "author", [{"family": "van der Berg", "given": "A.B."}]),
        ("TY  - BOOK\nBT  - Herons\nT2  - Series of birds", "collection-title", "Series of birds"),
        ("TY  - BOOK\nBT  - Herons\nT2  - Series of birds", "title", "Herons"),
        ("TY  - CHAP\nT2  - The book", "container-title", "The book"),
    ],
)
def test_ris_of_reference_managers(fields: str, name: str, value: object) -> None:
    """EndNote has the day before the year; Elsevier's DOI is in M3; a book's T2 is its series, and its SN an ISBN."""
    kind = "" if fields.startswith("TY") else "TY  - JOUR\n"
    assert read_ris(f"{kind}{fields}\nER  - \n").works[0].item[name] == value


def test_ris_with_folded_lines() -> None:
    """A line that begins like a tag continues the value unless the tag is known."""
    text = "TY - JOUR\nTI  - A\n      long title\nAB  - One\nOK - two\n\nthree\nY1  - 2012/05//\nER -\n"
    (work,) = read_ris(text).works
    assert (work.title, work.abstract) == ("A long title", "One OK - two three")
    assert work.item["issued"] == {"date-parts": [[2012, 5]]}


def test_csl_json_keeps_all_fields() -> None:
    item = '{"id": 7, "type": "chapter", "title": "T", "translator": [{"family": "X"}]}'
    (work,) = read_csl(f"[{item}]").works
    assert (work.key, work.item["translator"]) == ("7", [{"family": "X"}])


def test_items_of_crossref_are_read() -> None:
    """Lists of titles, Crossref's own types, markup, entities, and names without parts are read."""
    item = {
        "type": "journal-article", "title": ["The <i>E. coli</i> of H<sub>2</sub>O &amp;amp; mud"],
        "ISSN": ["1-2", "3-4"], "container-title": ["Journal", "J."],
        "author": [{"name": "The Group"}, {"family": "Doe", "sequence": "first"}],
        "abstract": "<jats:title>Aim</jats:title><jats:p>If x &lt; 5.</jats:p>", "issued": {"date-parts": [[None]]},
    }  # fmt: skip
    for answer in (item, [item], {"message": item}, {"message": {"items": [item]}}):
        (work,) = read_csl(json.dumps(answer)).works
        assert (work.title, work.venue, work.authors) == ("The E. coli of H2O & mud", "Journal", ("The Group", "Doe"))
        assert (work.item["type"], work.item["ISSN"], work.year) == ("article-journal", "1-2, 3-4", None)
        assert work.abstract == "Aim If x < 5."


@pytest.mark.parametrize(
    ("issued", "year"),
    [
        ({"date-parts": [["2019", "5"]]}, 2019),
        ({"date-parts": [2019, 5]}, 2019),
        ({"date-parts": [["2019-05-03"]]}, 2019),
        ({"date-parts": [["c. 1850"]]}, 1850),
        ([{"date-parts": [[2019]]}], 2019),
        ({"raw": "spring 2020"}, 2020),
        ({"literal": "ca. 1850"}, 1850),
        ({"date-parts": [[-44]]}, -44),
        ("2019-05-01", 2019),
        (2019, 2019),
        ({"literal": "in press"}, None),
        (None, None),
    ],
)
def test_dates_of_csl_json(issued: object, year: int | None) -> None:
    (work,) = read_csl(json.dumps({"type": "book", "DOI": "10.1000/a", "author": "Doe, J.", "issued": issued})).works
    assert (work.year, work.authors) == (year, ("J. Doe",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "its JSON is broken in line 1"),
        ("[" * 100_000, "its JSON is broken"),
        ('{"a": 1}', "no item with a type and a title"),
        ('[{"type": "book", "title": "T", "author": [7]}]', "no item with a type and a title"),
        ("[7, null]", "no item with a type and a title"),
        ('[{"type": "book", "title": "T", "issued": {"date-parts": 7}}]', "no item with a type and a title"),
        ("null", "no item"),
    ],
)
def test_other_json_is_a_clear_error(text: str, problem: str) -> None:
    with pytest.raises(UnreadableFile, match=problem):
        read_csl(text)


SICI = "10.1002/(SICI)1097-0258(19980815/30)17:15/16<1661::AID-SIM968>3.0.CO;2-2"


@pytest.mark.parametrize(
    ("text", "doi"),
    [
        ("see https://doi.org/10.1000/ABC.", "10.1000/abc"),
        ("(doi:10.1016/S0140-6736(20)30183-5).", "10.1016/s0140-6736(20)30183-5"),
        ("10.1000/a; next", "10.1000/a"),
        (SICI, SICI.lower()),
        (f"https://doi.org/{quote(SICI)}", SICI.lower()),
        (SICI.replace("<", "&lt;").replace(">", "&gt;"), SICI.lower()),
        ("<a>10.1000/a</a><b>", "10.1000/a"),
        ("10.1000/a.Received 5 May", "10.1000/a"),
        ("10.1000/a;10.1000/b", "10.1000/a"),
        ("https://j.example/doi/full/10.1000/a?needAccess=true", "10.1000/a"),
        ("https://j.example/doi/10.1000/a/pdf", "10.1000/a"),
        ("见10.1000/a。", "10.1000/a"),
        ("10.1145/nnnnnnn.nnnnnnn", ""),
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


DOE = [{"family": "Doe", "given": "Jane"}]


def test_descriptions_of_one_work_are_merged() -> None:
    """The bibliography wins, and the PDF fills its gaps."""
    issued = {"date-parts": [[2020]]}
    listed = Work.of({"id": "a", "type": "article", "title": "The Herons", "issued": issued, "author": DOE})
    doe = [{"family": "DOE", "given": "J."}]
    in_pdf = Work.of({"title": "the herons.", "DOI": "10.1000/X", "abstract": "Short.", "author": doe})
    other = Work.of({"id": "b", "type": "book", "title": "The Herons", "issued": {"date-parts": [[1999]]}})
    merged = merge_works([(["p"], in_pdf), (["a"], listed), (["b"], other)])
    assert [addresses for addresses, _ in merged] == [["a", "p"], ["b"]]
    work = merged[0][1]
    assert (work.key, work.title, work.doi, work.abstract) == ("a", "The Herons", "10.1000/x", "Short.")


@pytest.mark.parametrize(
    ("item", "other_item", "is_same"),
    [
        ({"author": [{"family": "Adams"}]}, {"author": [{"family": "Baker"}]}, False),
        ({}, {"author": None}, False),
        ({"author": None, "editor": DOE}, {}, True),
        ({"volume": "3"}, {"volume": "4"}, False),
        ({"page": "1-9"}, {"page": "1"}, True),
        ({"page": "1-9"}, {"page": "2-9"}, False),
        ({"issued": {"date-parts": [[2020]]}}, {"issued": {"date-parts": [["2021"]]}}, False),
        ({"DOI": "10.1000/a"}, {"DOI": "10.1000/b"}, False),
        ({"DOI": "10.1000/a"}, {"number": "arXiv:2201.00001"}, True),
        ({"DOI": "10.1000/a"}, {"DOI": "https://doi.org/10.1000/A", "title": "Herons, with a subtitle"}, True),
        ({"DOI": "10.1000/book", "page": "1-9"}, {"DOI": "10.1000/book", "page": "10-20", "title": "Otters"}, False),
        ({"ISBN": "978-3-16-148410-0"}, {"ISBN": "3161484100"}, True),
        ({"ISBN": "978-3-16-148410-0"}, {"ISBN": "978-0-30-640615-7"}, False),
        ({"author": [{"family": "Wang", "given": "Li"}]}, {"author": [{"family": "Wang", "given": "Min"}]}, False),
        ({"author": [{"family": "Berg", "given": "A.", "non-dropping-particle": "van den"}]},
         {"author": [{"family": "van den Berg", "given": "Anna"}]}, True),
        ({"author": [{"family": "Müller"}]}, {"author": [{"family": "Muller", "given": "J"}]}, True),
        ({"author": [{"literal": "Lake University"}]}, {"author": [{"literal": "River University"}]}, False),
    ],
)  # fmt: skip
def test_works_are_one_by_identifier_or_by_title_and_author(
    item: dict[str, Any], other_item: dict[str, Any], *, is_same: bool
) -> None:
    own = {"title": "Herons", "author": DOE}
    works = [Work.of({"id": "a", **own, **item}), Work.of({"id": "b", **own, **other_item})]
    assert works[0].is_same(works[1]) == works[1].is_same(works[0]) == is_same
    assert len(merge_works([([work.key], work) for work in works])) == (1 if is_same else 2)


def test_equal_titles_of_many_works_are_told_apart() -> None:
    """A second description finds its work also if other works with the title come first."""
    volumes = [Work.of({"id": f"{n}", "title": "Editorial", "author": DOE, "volume": f"{n}"}) for n in range(3)]
    merged = merge_works([([work.key], work) for work in (*volumes, *volumes)])
    assert [addresses for addresses, _ in merged] == [["0", "0"], ["1", "1"], ["2", "2"]]


@pytest.mark.parametrize(
    ("item", "is_retracted"),
    [
        ({"title": "RETRACTED: Herons"}, True),
        ({"title": "[Retracted] Herons"}, True),
        ({"title": "Retracted Article: Herons"}, True),
        ({"title": "Herons (Retracted article. See vol. 5, pg. 3, 2010)"}, True),
        ({"title": "苍鹭研究（已撤稿）"}, True),
        ({"title": "Retraction notice to “Herons”"}, False),
        ({"title": "Retraction: Herons"}, False),
        ({"title": "Why are retracted papers cited?"}, False),
        ({"title": "Loads on gear (retracted position)"}, False),
        ({"note": "Retraction in: J Birds. 2010;5:3"}, True),
        ({"note": "The authors retracted an earlier claim."}, False),
        ({"keyword": "birds; Retracted Publication"}, True),
        ({"keyword": "retracted claw, cats"}, False),
        ({"updated-by": [{"type": "retraction", "DOI": "10.1000/n"}]}, True),
        ({"updated-by": [{"type": "erratum", "DOI": "10.1000/n"}]}, False),
        ({"update-to": [{"type": "retraction", "DOI": "10.1000/w"}]}, False),
        ({"updated-by": "retraction"}, False),
    ],
)
def test_only_a_notice_marks_a_work_as_retracted(item: dict[str, Any], *, is_retracted: bool) -> None:
    assert Work.of({"title": "Herons", **item}).is_retracted == is_retracted


def test_notice_of_crossref_marks_the_work_that_it_retracts() -> None:
    """The mark does not take the place of other values in `custom`."""
    work = Work.of({"id": "w", "title": "Herons", "DOI": "10.1000/W", "custom": {"files": ["/a.pdf"]}})
    notice = Work.of({"id": "n", "title": "Retraction", "update-to": [{"type": "retraction", "DOI": "10.1000/w"}]})
    merged = [merged for _, merged in merge_works([(["w"], work), (["n"], notice)])]
    assert [work.is_retracted for work in merged] == [True, False]
    assert merged[0].files == ("/a.pdf",)
    in_pdf = Work.of({"title": "Herons", "DOI": "10.1000/w", "custom": {"is_retracted": True}})
    assert work.merged(in_pdf).is_retracted


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


def work_of(data: bytes) -> Work | None:
    reader = LITERATURE.readers[".pdf"]
    described = reader.describe(reader.extract(data, Path("a.pdf")).metadata)
    return next((Work(item) for _, item in described), None)


def test_work_of_a_pdf_is_found_on_its_first_page() -> None:
    work = work_of(pdf(ARTICLE, "Second page"))
    assert work is not None
    assert work.title == "Herons and otters of the northern lakes"
    assert work.authors == ("Jörg Müller", "Anna van Berg", "José García")
    assert (work.doi, work.year, work.is_retracted) == ("10.1000/jb.7", 2019, False)
    assert work.abstract == "We counted herons and otters at ten lakes, and found that the number of both doubled."


def test_retracted_pdf_is_marked() -> None:
    page = [Line(72, 760, "RETRACTED ARTICLE: Herons", 20), *paragraph("Herons", "are", "no", "longer", "seen")]
    work = work_of(pdf(page))
    assert work is not None
    assert work.is_retracted


BODY = [*paragraph("Herons wait.", "They fish.", "They nest.", "They fly.", "They sleep.", y=500)]


@pytest.mark.parametrize(
    ("lines", "identifiers"),
    [
        (["Abstract", "Short.", "References", "Doe, Otters. https://doi.org/10.1000/otters"], ("", "")),
        (["Abstract", "As in arXiv:1706.03762 and doi:10.1000/otters"], ("", "")),
        (["A recent paper (https://doi.org/10.1000/otters)", "claims much."], ("", "")),
        (["Comment on: https://doi.org/10.1000/otters"], ("", "")),
        (["DOI 10.1000/herons", "Abstract", "Short. doi:10.1000/otters"], ("10.1000/herons", "")),
        (["Abstract", "Short.", "arXiv:2201.00001v2 [cs.CL] 6 Dec 2022"], ("", "2201.00001")),
    ],
)
def test_identifiers_of_a_pdf_are_in_the_head_of_its_first_page(lines: list[str], identifiers: tuple[str, str]) -> None:
    """Identifiers of cited works, and a year on the second page, do not count."""
    page = [Line(72, 720, "Herons of the northern lakes", 20), *paragraph(*lines, y=680), *BODY]
    work = work_of(pdf(page, "Doe (2001), vol. 3, doi:10.1000/second"))
    assert work is not None
    assert (work.title, work.doi, work.arxiv_id) == ("Herons of the northern lakes", *identifiers)
    assert work.year == (2022 if work.arxiv_id else None)


@pytest.mark.parametrize(
    ("line", "is_retracted"),
    [
        ("This article has been retracted at the request of the editor.", True),
        ("RETRACTED ARTICLE", True),
        ("The claws of the model are then retracted.", False),
        ("We ask why this article was retracted.", False),
    ],
)
def test_notice_of_a_pdf_is_in_its_head(line: str, *, is_retracted: bool) -> None:
    page = [Line(72, 720, "Herons of the northern lakes", 20), *paragraph(line, "Abstract", y=680), *BODY]
    work = work_of(pdf(page))
    assert work is not None
    assert work.is_retracted == is_retracted


def test_notes_without_a_title_are_no_work() -> None:
    assert work_of(pdf("Only a line.")) is None


# --- sources ---------------------------------------------------------------------------------------------------------


async def listed(sources: SourceManager) -> dict[str, Work]:
    return {address: Work(item) for address, item in await sources._database.read(load_metadata)}


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
    assert added.omitted == {"refs.json": "item 2 cannot be read"}
    assert list(await listed(sources)) == ["local:refs.json#a"]
    (tmp_path / "config.json").write_text('{"a": 1}', encoding="utf-8")
    with pytest.raises(UsageError, match=r"config\.json is not CSL-JSON"):
        await sources.add_folder(tmp_path / "config.json")


def zotero(folder: Path) -> Path:
    """A database with the tables of Zotero that are read, a PDF in its storage, and a deleted item."""
    folder.mkdir(exist_ok=True)
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


async def test_changes_beside_a_zotero_database_are_read(sources: SourceManager, tmp_path: Path) -> None:
    """While Zotero runs, its changes are in another file, also if the database was indexed before."""
    path = zotero(tmp_path)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    await sources.add_folder(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        for title in ("Kites", "Loons"):
            state = path.read_bytes()
            db.execute("UPDATE itemDataValues SET value = ? WHERE valueID = 5", (title,))
            assert path.read_bytes() == state
            await sources.add_folder(tmp_path)
            assert title in {work.title for work in (await listed(sources)).values()}


async def test_items_of_feeds_are_no_works(sources: SourceManager, tmp_path: Path) -> None:
    """Zotero stores the news of feeds among the items; the DOI of a book is in the line `DOI:` of its notes."""
    path = zotero(tmp_path)
    with closing(sqlite3.connect(path)) as db:
        db.executescript("""
            CREATE TABLE feedItems (itemID INTEGER PRIMARY KEY, guid TEXT);
            INSERT INTO items VALUES (7, 1, 'FEED'); INSERT INTO feedItems VALUES (7, 'https://example.org/1');
            INSERT INTO itemDataValues VALUES (20, 'News'), (21, 'Original date: 1999
DOI: 10.1000/B');
            INSERT INTO fields VALUES (9, 'extra'); INSERT INTO itemData VALUES (7, 1, 20), (3, 9, 21);
        """)
    await sources.add_folder(path)
    works = await listed(sources)
    assert sorted((work.title, work.doi) for work in works.values()) == [
        ("Herons of the lake", "10.1000/z"), ("Otters", "10.1000/b"),
    ]  # fmt: skip


async def test_attached_files_that_are_not_read_are_named(sources: SourceManager, tmp_path: Path) -> None:
    path, outside = zotero(tmp_path / "Zotero"), tmp_path / "outside.pdf"
    outside.write_bytes(pdf("Otters"))
    places = ("attachments:papers/linked.pdf", "/nowhere/gone.pdf", str(outside))
    with closing(sqlite3.connect(path)) as db:
        for number, place in enumerate(places, 10):
            db.execute("INSERT INTO items VALUES (?, 2, ?)", (number, f"K{number}"))
            db.execute("INSERT INTO itemAttachments VALUES (?, 3, 'application/pdf', ?)", (number, place))
        db.commit()
    (omitted,) = (await sources.add_folder(path)).omitted.values()
    assert omitted == (
        f"the file {places[0]}, linked from a base folder (add that folder, too), "
        f"the attached file gone.pdf (missing), the linked file {outside} (add its folder, too) cannot be read"
    )


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
    cited = await sources._database.read(lambda db: cited_works(db, listed_sources(text), lambda _: Evidence()))
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


async def test_bibliography_stays_indexed_without_its_reader(sources: SourceManager, tmp_path: Path) -> None:
    """A manager without the plugin finds the entries, and does not check the file again."""
    folder = tmp_path / "papers"
    folder.mkdir()
    (folder / "refs.bib").write_text("@misc{z, title={Zebras}, abstract={They gallop at dawn.}}", encoding="utf-8")
    await sources.add_folder(folder)
    plain = SourceManager(sources._database, FakeClock())
    (folder / "refs.bib").write_text("@misc{z, title={Zebras}, abstract={They sleep.}}", encoding="utf-8")
    (hit,) = await plain.search("gallop at dawn", limit=1)
    assert "dawn" in (await plain.read(hit.address)).text
    assert not await plain.refresh(["papers/refs.bib"])
    assert await sources.refresh(["papers/refs.bib"])
