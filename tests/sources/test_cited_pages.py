"""Pictures of cited pages of PDF files, with the passage marked."""

import json
import struct
import zlib
from pathlib import Path

import pytest
from support.pdf import PICTURE, Line, assembled, encrypted, paragraph, pdf

import artifactflow_nb as af
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.sources.citation_marks import cited_statement
from artifactflow_nb.sources.cited_pages import page_picture, place_in_file

SENTENCE = "The heron waits for fish in the shallow water of the lake."
PAGE = [
    *paragraph("Otters swim all day and sleep", "at night.", y=700),
    *paragraph("The heron waits for fish in", "the shal-", "low water of the lake.", y=500),
]


def rows(png: bytes) -> list[bytes]:
    """Return the rows of RGB pixels."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, _ = struct.unpack(">II", png[16:24])
    start = png.index(b"IDAT")
    (length,) = struct.unpack(">I", png[start - 4 : start])
    data = zlib.decompress(png[start + 4 : start + 4 + length])
    return [data[n + 1 : n + 1 + 3 * width] for n in range(0, len(data), 3 * width + 1)]


def marked_rows(png: bytes) -> list[int]:
    """Return the positions of the rows with a yellow pixel, in points from the top."""
    found = rows(png)
    scale = len(found) / 800
    return sorted({round(n / scale) for n, row in enumerate(found) if b"\xff\xff\x66" in row})


def test_passage_is_marked_over_line_ends_and_divided_words(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf("Cover", PAGE))
    marked = marked_rows(page_picture(path, 2, SENTENCE))
    assert (min(marked), max(marked)) == (pytest.approx(291, abs=3), pytest.approx(330, abs=3))
    assert marked_rows(page_picture(path, 2)) == []
    assert marked_rows(page_picture(path, 2, "Elephants sing.")) == []


def test_passage_over_columns_is_marked_in_parts(tmp_path: Path) -> None:
    """The file has the lines row by row, so that the passage is not in one piece."""
    path = tmp_path / "a.pdf"
    left = paragraph("Herons stand in the water", "and wait there for fish to", "come, and then they")
    right = paragraph("strike with their beaks in", "less than a tenth of a", "second, as films show.", x=320)
    path.write_bytes(pdf([line for pair in zip(left, right, strict=True) for line in pair]))
    marked = marked_rows(page_picture(path, 1, " ".join(line.text for line in [*left, *right])))
    assert len(marked) > 15


@pytest.mark.parametrize("size", [(72, 72), (3000, 4000)])
def test_picture_has_at_most_a_thousand_columns(tmp_path: Path, size: tuple[int, int]) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf("x").replace(b"0 0 600 800", b"0 0 %d %d" % size))
    assert len(rows(page_picture(path, 1))[0]) == 3 * min(1000, 2 * size[0])


def test_picture_of_a_missing_or_unreadable_page_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf("x"))
    with pytest.raises(NotFound, match="a.pdf has no page 2; its last page is 1"):
        page_picture(path, 2)
    path.write_bytes(encrypted(pdf("x"), "key"))
    with pytest.raises(UsageError, match="a.pdf is encrypted and needs a password"):
        page_picture(path, 1)
    path.unlink()
    with pytest.raises(NotFound, match=r"a\.pdf is missing, so page 1 cannot be shown"):
        page_picture(path, 1)


def test_scan_has_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(PICTURE))
    assert b"\x80\x80\x80" in b"".join(rows(page_picture(path, 1)))


def test_statement_of_a_mark_is_the_text_before_it() -> None:
    report = "# T\n\nFirst [1]. **Herons** wait `here` [2, 3].\n\nOther [4-6].\n"
    assert cited_statement(report, 3) == "First . Herons wait here"
    assert cited_statement(report, 5) == "Other"
    assert cited_statement(report, 9) == ""


REPORT = """Herons wait in shallow water for fish [1]. Python is a language [2].

1. Birds: page 2 — local:notes/birds.pdf#page-2
2. Guide — https://docs.python.org/3/
"""


@pytest.fixture
def wb(tmp_path: Path) -> af.Workbench:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "birds.pdf").write_bytes(pdf([Line(72, 700, "Cover")], PAGE, title="Birds"))
    with af.Workbench(
        model=af.ScriptedModel(
            [af.ToolCall("create_artifact", {"id": "note", "title": "N", "content": REPORT}), "See the note."]
        ),
        data_dir=tmp_path / "data",
        approvals="approve",
        interactive=False,
    ) as workbench:
        workbench.sources.add(tmp_path / "notes")
        yield workbench


def test_citation_of_a_pdf_is_its_passage_and_its_page(wb: af.Workbench, tmp_path: Path) -> None:
    """The picture is in the output; the plain and the Markdown form have the passage."""
    run = wb.ask("Where do herons wait?").wait()
    for citation in (run.citation(1), run.artifacts["note"].citation(1)):
        assert (citation.number, citation.title, citation.address) == (
            1,
            "Birds: page 2",
            "local:notes/birds.pdf#page-2",
        )
        assert citation.passage == SENTENCE
        assert marked_rows(citation.picture())
        assert '<img alt="Page 2 of Birds: page 2" src="data:image/png;base64,' in citation._repr_html_()
    (tmp_path / "notes" / "birds.pdf").unlink()
    assert "is missing, so page 2 cannot be shown" in run.citation(1)._repr_html_()
    assert SENTENCE in run.citation(1)._repr_html_()


def test_citation_of_a_web_page_has_no_picture(wb: af.Workbench) -> None:
    run = wb.ask("Where do herons wait?").wait()
    assert run.citation(2).address == "https://docs.python.org/3/"
    assert "<img" not in run.citation(2)._repr_html_()
    with pytest.raises(UsageError, match="is not a page of an indexed PDF"):
        run.citation(2).picture()


def test_unknown_citation_lists_the_numbers(wb: af.Workbench) -> None:
    run = wb.ask("Where do herons wait?").wait()
    with pytest.raises(NotFound, match="no source with the number 7. It lists 1, 2."):
        run.citation(7)


def test_mark_is_at_the_passage_below_characters_beyond_the_basic_plane(tmp_path: Path) -> None:
    """Chromium prints emoji in this way: each emoji counts as two characters of the page."""
    unicode_map = b"1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfchar <01> <D83DDE00> endbfchar"
    text = (
        b"BT /F1 12 Tf 72 700 Td (\x01\x01\x01\x01\x01) Tj 0 -200 Td (Herons wait.) Tj 0 -200 Td (Otters swim.) Tj ET"
    )
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding /ToUnicode 6 0 R >>"
    resources = b"/Resources << /Font << /F1 4 0 R >> >> /Contents 5 0 R"
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] %b >>" % resources
    streams = [b"<< /Length %d >>\nstream\n%b\nendstream" % (len(data), data) for data in (text, unicode_map)]
    pages = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
    path = tmp_path / "a.pdf"
    path.write_bytes(assembled(b"<< /Type /Catalog /Pages 2 0 R >>", pages, page, font, *streams))
    marked = marked_rows(page_picture(path, 1, "Otters swim."))
    assert (min(marked), max(marked)) == (pytest.approx(490, abs=4), pytest.approx(502, abs=4))


NOTE = "Ferries\n\nThe ferry leaves at nine.\nIt carries\nbicycles and   dogs.\n"
HEADED = "# Lake\n\nIntro.\n\n## The *old* `pier`\n\n```sh\n# The ferry leaves\n```\n\nThe ferry leaves at nine.\n"
CELLS = json.dumps({"cells": [{"source": "a"}, {"id": "b7", "source": "The ferry leaves at nine."}]})


@pytest.mark.parametrize(
    ("name", "text", "anchor", "passage", "place"),
    [
        ("note.txt", NOTE, "part-1", "The ferry leaves at nine.", "line=2"),
        ("note.txt", NOTE, "part-1", "It carries bicycles and dogs.", "line=3"),
        ("note.txt", NOTE, "part-1", "A sentence that the file has lost.", ""),
        ("note.txt", NOTE, "part-1", "", ""),
        ("note.rst", NOTE, "ferries", "bicycles and dogs.", "line=4"),
        (
            "a.py",
            "def leave():\n    return 'The ferry (leaves) at nine.'\n",
            "leave",
            "The ferry (leaves) at nine.",
            "line=1",
        ),
        ("note.md", HEADED, "the-old-pier", "The ferry leaves at nine.", "The-old-pier"),
        ("note.MD", "# 码头\n\n渡船九点开。", "a", "渡船九点开。", "%E7%A0%81%E5%A4%B4"),
        ("note.md", "The ferry leaves at nine.", "part-1", "The ferry leaves at nine.", ""),
        ("a.ipynb", CELLS, "cell-2", "The ferry leaves at nine.", "cell-id=b7"),
        ("a.ipynb", CELLS, "cell-1", "a", ""),
        ("a.ipynb", "{", "cell-1", "a", ""),
        ("a.pdf", "", "page-3", "a", "page=3"),
        ("a.docx", "The ferry leaves at nine.", "part-1", "The ferry leaves at nine.", ""),
    ],
)
def test_place_of_a_passage_is_the_fragment_that_viewers_of_jupyterlab_read(
    tmp_path: Path, name: str, text: str, anchor: str, passage: str, place: str
) -> None:
    (tmp_path / name).write_text(text)
    assert place_in_file(tmp_path / name, anchor, passage) == place


def test_place_of_a_passage_follows_the_file(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    assert place_in_file(path, "part-1", "The ferry leaves at nine.") == ""
    path.write_text(NOTE)
    assert place_in_file(path, "part-1", "The ferry leaves at nine.") == "line=2"
    path.write_text(f"A new line.\n{NOTE}")
    assert place_in_file(path, "part-1", "The ferry leaves at nine.") == "line=3"
