"""Artifacts as Word documents."""

import io
import re
import sys
import time
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import docx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cpu_time import check_linear

from artifactflow_nb.errors import UsageError
from artifactflow_nb.export.document import artifact_document
from artifactflow_nb.export.files import document_bytes
from artifactflow_nb.store.artifact_versions import Artifact


def exported(content: str, **changes: Any) -> bytes:
    when = datetime(2026, 11, 22, 4, 30, tzinfo=UTC)
    artifact = Artifact(
        "report", 2, "The report", "text/markdown", content, "update", when, "user", None, None, "", None, None
    )
    return document_bytes(artifact_document(replace(artifact, **changes)), "docx")


def open_document(content: str, **changes: Any) -> Any:
    return docx.Document(io.BytesIO(exported(content, **changes)))


def paragraphs(content: str, **changes: Any) -> list[tuple[str, str]]:
    """Style and text of each paragraph except the last, which names the origin of the text."""
    return [(paragraph.style.name, paragraph.text) for paragraph in open_document(content, **changes).paragraphs][:-1]


def test_blocks_have_the_styles_of_word() -> None:
    """The blocks are headings, paragraphs, quotations and code."""
    text = "# One\n\nText\nof two lines.\n\n## Two\n\n> Quoted.\n\n```\na = 1\n\n  b\n```\n\n---\n\nEnd."
    assert paragraphs(text) == [
        ("Heading 1", "One"),
        ("Normal", "Text of two lines."),
        ("Heading 2", "Two"),
        ("Quote", "Quoted."),
        ("Code", "a = 1\n\n  b"),
        ("Normal", ""),
        ("Normal", "End."),
    ]


def test_lists_have_bullets_numbers_and_levels() -> None:
    """A further paragraph of an item is indented below the item."""
    text = "- a\n- b\n\n  more of b\n  - deeper\n    1. deepest\n       - beyond\n\ntext\n\n1. one\n2. two"
    assert paragraphs(text, title="T")[1:] == [
        ("List Bullet", "a"),
        ("List Bullet", "b"),
        ("List Continue", "more of b"),
        ("List Bullet 2", "deeper"),
        ("List Number 3", "deepest"),
        ("List Bullet 3", "beyond"),
        ("Normal", "text"),
        ("List Number", "one"),
        ("List Number", "two"),
    ]


def test_each_numbered_list_counts_from_its_own_start() -> None:
    """A second list starts again, and a list that is written with 7 starts at 7."""
    document = open_document("1. a\n2. b\n\ntext\n\n7. c\n8. d")
    numbered = [paragraph for paragraph in document.paragraphs if paragraph.style.name == "List Number"]
    ids = [entry._p.pPr.numPr.numId.val for entry in numbered]
    assert ids[0] == ids[1] != ids[2] == ids[3]
    numbering = document.part.numbering_part.element
    starts = {num.numId: num.lvlOverride_lst[0].startOverride.val for num in numbering.num_lst if num.numId in ids}
    assert [starts[entry] for entry in ids] == [1, 1, 7, 7]


def test_emphasis_is_kept() -> None:
    """Bold, italic, struck through and code are kept, also nested."""
    document = open_document("a **b *c*** ~~d~~ `e`")
    runs = document.paragraphs[1].runs
    assert [(run.text, run.bold, run.italic, run.font.strike, run.font.name) for run in runs if run.text.strip()] == [
        ("a ", None, None, None, None),
        ("b ", True, None, None, None),
        ("c", True, True, None, None),
        ("d", None, None, True, None),
        ("e", None, None, None, "Consolas"),
    ]


def test_tables_have_header_rows_and_alignment() -> None:
    """The header is bold and repeated on each page."""
    (table,) = open_document("| a | **b** | c |\n|---|:-:|--:|\n| 1 | 2 | 3 |").tables
    assert [[cell.text for cell in row.cells] for row in table.rows] == [["a", "b", "c"], ["1", "2", "3"]]
    assert table.rows[0].cells[0].paragraphs[0].runs[0].bold
    assert table.rows[0]._tr.trPr.xpath("w:tblHeader")
    assert [cell.paragraphs[0].alignment for cell in table.rows[1].cells] == [None, 1, 2]


def test_only_web_and_mail_links_are_links() -> None:
    """Other links and invalid addresses are text; an image becomes a link."""
    text = (
        "[web](https://example.org/a?b=1&c=2) [mail](mailto:a@example.org) [script](javascript:alert(1)) "
        "[file](file:///etc/passwd) [inside](#x) [bad](http://[oops) ![image](https://example.org/i.png)"
    )
    document = open_document(text)
    targets = [rel.target_ref for rel in document.part.rels.values() if rel.is_external]
    assert targets == ["https://example.org/a?b=1&c=2", "mailto:a@example.org", "https://example.org/i.png"]
    assert [link.text for link in document.paragraphs[1].hyperlinks] == ["web", "mail", "image"]
    assert not document.inline_shapes
    assert "script" in document.paragraphs[1].text


def test_document_loads_nothing() -> None:
    """The file contains no address except the addresses of links, and no picture, macro or object."""
    names = zipfile.ZipFile(io.BytesIO(exported("# A\n\n![x](https://hostile.invalid/x.png)"))).namelist()
    assert not [name for name in names if re.search(r"media/|\.bin$|embeddings|vba", name)]


def test_document_properties_name_title_author_and_time() -> None:
    """The last line is the provenance."""
    document = open_document("Text.", title="T" * 300)
    known = document.core_properties
    assert (len(known.title), known.author, known.identifier) == (255, "user", "report version 2")
    assert known.created.replace(tzinfo=UTC) == datetime(2026, 11, 22, 4, 30, tzinfo=UTC)
    assert document.paragraphs[0].style.name == "Title"
    assert document.paragraphs[-1].text == "report · version 2 · user · 2026-11-22 04:30 UTC"


def test_chinese_has_a_chinese_font() -> None:
    """The default template names a Japanese font."""
    document = open_document("# 温度计\n\n温度计每年校准一次。")
    fonts = document.styles["Normal"].element.rPr.rFonts
    assert "Microsoft YaHei" in fonts.attrib.values()


@settings(max_examples=60)
@given(
    st.text(max_size=80),
    st.lists(st.sampled_from(["- ", "1. ", "> ", "# ", "|a|\n|-|\n", "```\n", "**", "[x](", "\n"])),
)
def test_any_text_can_be_exported(text: str, marks: list[str]) -> None:
    assert open_document("".join(f"{mark}{text}\n" for mark in ["", *marks])).paragraphs


def test_long_report_is_complete() -> None:
    """The report has hundreds of chapters with links and lists."""
    part = "## Chapter {n}\n\nText with **bold** and [a link](https://example.org/{n}).\n\n- a\n- b\n\n1. c\n\n"
    document = open_document("".join(part.replace("{n}", str(n)) for n in range(300)))
    assert sum(paragraph.style.name == "Heading 2" for paragraph in document.paragraphs) == 300


@pytest.mark.timed
def test_export_time_grows_linearly() -> None:
    """Four times the text takes about four times as long."""

    def took(n: int) -> float:
        text = "".join(f"[a](https://example.org/{number})\n\n" for number in range(n))
        started = time.thread_time()
        exported(text)
        return time.thread_time() - started

    check_linear(took)


def test_missing_python_docx_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without python-docx the error is one line with the command to install it."""
    monkeypatch.setitem(sys.modules, "docx", None)
    with pytest.raises(UsageError, match=r"pip install 'artifactflow-nb\[docx\]'"):
        exported("Text.")


def test_paragraphs_from_right_to_left_have_their_direction() -> None:
    """Word lays out a paragraph by `w:bidi` and a run by `w:rtl`; code and English stay left to right."""
    text = "مالك `wait()` عند الشاطئ.\n\n- أولا\n\nEnglish.\n\n```\nمرحبا\n```\n\n| المحطة |\n| --- |\n| 12 |"
    document = open_document(text, title="T")
    directed = [bool(paragraph._p.xpath("./w:pPr/w:bidi")) for paragraph in document.paragraphs]
    assert directed[1:5] == [True, True, False, False]
    assert [bool(run.font.rtl) for run in document.paragraphs[1].runs] == [True, False, True]
    assert document.tables[0].cell(0, 0).paragraphs[0]._p.xpath("./w:pPr/w:bidi")
