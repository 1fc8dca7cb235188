"""Word documents as sources: what a reader of the document sees is read, and the rest is named."""

import io
import zipfile
from pathlib import Path

import pytest
from support.word import STRICT, paragraph, run, table, word_file

from artifactflow_nb.errors import UsageError
from artifactflow_nb.sources.formats.word import read_word
from artifactflow_nb.sources.manager import SourceManager


def text_of(*body: str, **parts: str) -> str:
    return read_word(word_file(*body, **parts)).text


def control(content: str) -> str:
    return f'<w:sdt><w:sdtPr><w:alias w:val="Alias"/><w:text/></w:sdtPr><w:sdtContent>{content}</w:sdtContent></w:sdt>'


def box(content: str) -> str:
    """Return a text box, which Word writes twice, for new and for old programs."""
    new = f"<w:drawing><wps:txbx><w:txbxContent>{content}</w:txbxContent></wps:txbx></w:drawing>"
    old = f"<w:pict><v:textbox><w:txbxContent>{content}</w:txbxContent></v:textbox></w:pict>"
    return (
        f'<w:r><mc:AlternateContent><mc:Choice Requires="wps">{new}</mc:Choice><mc:Fallback>{old}</mc:Fallback>'
        "</mc:AlternateContent></w:r>"
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (paragraph("It is ", control(run("42 m")), " deep."), "It is 42 m deep."),
        (control(control(paragraph("Nested."))), "Nested."),
        (control(table(("a", "b"))), "| a | b |\n| --- | --- |"),
        (f"<w:tbl>{control('<w:tr><w:tc>' + paragraph('a') + '</w:tc></w:tr>')}</w:tbl>", "a"),
        (table((control(paragraph("a")), "b")), "| a | b |\n| --- | --- |"),
        (paragraph('<w:smartTag w:element="place">' + run("Lund") + "</w:smartTag>", " is near."), "Lund is near."),
        (paragraph('<w:customXml w:element="x">' + run("Lund") + "</w:customXml>"), "Lund"),
        (paragraph('<w:hyperlink r:id="r1">' + run("the fares") + "</w:hyperlink>", "."), "the fares."),
        (paragraph("<w:bdo>" + run("forced") + "</w:bdo>"), "forced"),
    ],
    ids=["inline", "nested", "table", "row", "cell", "smart-tag", "custom-xml", "link", "direction"],
)  # fmt: skip
def test_wrapped_text_is_read(body: str, text: str):
    assert text_of(body) == text


def test_insertions_are_read_and_deletions_are_not():
    """Moved text stands in its new place, and a deleted row of a table is gone."""
    deleted = "<w:del><w:r><w:delText>5</w:delText></w:r></w:del>"
    moved = f"<w:moveFrom>{run('Old place. ')}</w:moveFrom>"
    gone = table(("c", "d")).removeprefix("<w:tbl>").removesuffix("</w:tbl>")
    gone = gone.replace("<w:tr>", "<w:tr><w:trPr><w:del/></w:trPr>")
    rows = table(("a", "b"), ("e", "f")).replace("</w:tr><w:tr>", f"</w:tr>{gone}<w:tr>")
    body = paragraph(
        moved, "The limit is ", deleted, f"<w:ins>{run('6')}</w:ins>", " mg.", f"<w:moveTo>{run(' New.')}</w:moveTo>"
    )
    assert text_of(body) == "The limit is 6 mg. New."
    assert text_of(rows) == "| a | b |\n| --- | --- |\n| e | f |"


def test_text_box_is_read_once_below_its_paragraph():
    """The same sentence twice in a box is kept twice."""
    content = paragraph("A box.") + control(paragraph("A box."))
    assert text_of(paragraph("Before. ", box(content), "After.")) == "Before. After.\n\nA box.\n\nA box."
    assert text_of(table((paragraph("cell", box(paragraph("boxed"))), "b"))) == "| cell boxed | b |\n| --- | --- |"


def test_hidden_text_and_instructions_of_fields_are_not_read():
    field = (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>HYPERLINK "http://x"</w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r>'
        + run("the fares")
        + '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )
    simple = '<w:fldSimple w:instr="DATE">' + run("1 May") + "</w:fldSimple>"
    body = paragraph(run("secret", "<w:vanish/>"), run("seen ", '<w:vanish w:val="0"/>'), field, " of ", simple)
    assert text_of(body) == "seen the fares of 1 May"


def test_field_in_the_instruction_of_a_field_is_not_read():
    """`{IF {MERGEFIELD x} = 1}` shows the result of the outer field only; a field without an end hides nothing."""

    def mark(kind: str) -> str:
        return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'

    inner = (mark("begin"), run("", "").replace("w:t", "w:instrText"), mark("separate"), "INNER", mark("end"))
    assert text_of(paragraph(mark("begin"), *inner, mark("separate"), "shown", mark("end"), ".")) == "shown."
    assert text_of(paragraph(mark("begin"), "broken"), paragraph("next")) == "broken\n\nnext"


def test_text_that_a_style_hides_is_not_read():
    styles = (
        '<w:style w:styleId="Own"><w:rPr><w:vanish/></w:rPr></w:style>'
        '<w:style w:styleId="Off"><w:rPr><w:vanish w:val="0"/></w:rPr></w:style>'
    )
    hidden, shown = run("secret", '<w:rStyle w:val="Own"/>'), run("seen", '<w:rStyle w:val="Off"/>')
    both = run(" here", '<w:rStyle w:val="Own"/><w:vanish w:val="false"/>')
    assert text_of(paragraph(hidden, shown, both), styles=styles) == "seen here"


def test_what_word_shows_as_one_line_is_one_paragraph():
    """A drop cap belongs to the next paragraph, and so does text whose paragraph mark is deleted."""
    cap = paragraph("O", properties='<w:framePr w:dropCap="drop" w:lines="3"/>')
    deleted = paragraph("One ", properties="<w:rPr><w:del/></w:rPr>")
    assert text_of(cap, paragraph("nce upon a time."), deleted, paragraph("two.")) == "Once upon a time.\n\nOne two."
    assert text_of(deleted, table(("a", "b")), deleted) == "One\n\n| a | b |\n| --- | --- |\n\nOne"
    with_box = deleted.replace("</w:p>", f"{box(paragraph('Box'))}</w:p>")
    assert text_of(with_box, paragraph("two.")) == "Box\n\nOne two."
    noted = paragraph("two", '<w:r><w:footnoteReference w:id="1"/></w:r>')
    notes = f'<w:footnote w:id="1">{paragraph("Note")}</w:footnote>'
    assert text_of(deleted, noted, footnotes=notes) == "One two[^1]\n\n[^1]: Note"


def test_reading_of_a_character_does_not_split_its_word():
    def ruby(base: str, reading: str) -> str:
        return f"<w:r><w:ruby><w:rubyPr/><w:rt>{run(reading)}</w:rt><w:rubyBase>{run(base)}</w:rubyBase></w:ruby></w:r>"

    assert text_of(paragraph(ruby("漢", "かん"), ruby("字", "じ"))) == "漢字"


def test_signs_of_symbol_fonts_are_read():
    """The boxes of forms are signs, or letters in a symbol font."""
    sign = '<w:r><w:sym w:font="Wingdings" w:char="F0FE"/></w:r>'
    letter = run("\u00fd", '<w:rFonts w:ascii="Wingdings"/>')
    other = run("\u00a3", '<w:rFonts w:ascii="Wingdings 2"/>')
    assert text_of(paragraph(sign, "yes ", letter, "no ", other, "þ £")) == "☑yes ☒no ☐þ £"


def test_cells_before_a_row_are_empty_columns():
    rows = table(("a", "b"), ("c",)).replace("</w:tr><w:tr>", '</w:tr><w:tr><w:trPr><w:gridBefore w:val="1"/></w:trPr>')
    assert text_of(rows) == "| a | b |\n| --- | --- |\n|  | c |"


@pytest.mark.parametrize("path", ["word\\document.xml", "Word/Document.xml"])
def test_names_of_parts_by_other_programs(path: str):
    """Evernote for Windows writes backslashes into the names."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(word_file(paragraph("Hello")))) as source, zipfile.ZipFile(written, "w") as target:
        for entry in source.namelist():
            target.writestr(entry.replace("word/document.xml", path), source.read(entry))
    assert read_word(written.getvalue()).text == "Hello"


def test_forms_show_their_state():
    """Check boxes, lists and modern controls show the chosen values."""

    def form(data: str) -> str:
        return f'<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{data}</w:ffData></w:fldChar></w:r>'

    on = form('<w:checkBox><w:default w:val="0"/><w:checked/></w:checkBox>')
    off = form('<w:checkBox><w:default w:val="0"/></w:checkBox>')
    chosen = form('<w:ddList><w:result w:val="1"/><w:listEntry w:val="pike"/><w:listEntry w:val="perch"/></w:ddList>')
    assert text_of(paragraph(on, " yes ", off, " no, a ", chosen)) == "☒ yes ☐ no, a perch"


def test_special_characters():
    """Line breaks, tabs, hyphens, and characters of symbol fonts are read."""
    symbol = '<w:r><w:sym w:font="Symbol" w:char="F0B0"/></w:r>'
    parts = (run("20 "), symbol, run("C"), "<w:r><w:br/></w:r>", run("x"), "<w:r><w:noBreakHyphen/></w:r>", run("ray"))
    assert text_of(paragraph(*parts, "<w:r><w:tab/></w:r>", run("\uf06dm"))) == "20 °C\nx-ray\tμm"


@pytest.mark.parametrize(
    ("equation", "text"),
    [
        ("<m:f><m:num>{a+b}</m:num><m:den>{2}</m:den></m:f>", "(a+b)/2"),
        ("<m:sSup><m:e>{x}</m:e><m:sup>{2}</m:sup></m:sSup>{+y}", "x^2+y"),
        ("<m:sSub><m:e>{v}</m:e><m:sub>{max}</m:sub></m:sSub>", "v_max"),
        ('<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{i=1}</m:sub><m:e>{i}</m:e></m:nary>', "∑_(i=1) i"),
        ("<m:rad><m:deg/><m:e>{x+1}</m:e></m:rad>", "√(x+1)"),
        ('<m:d><m:dPr><m:begChr m:val="["/><m:endChr m:val="]"/></m:dPr><m:e>{x}</m:e></m:d>', "[x]"),
        ("<m:func><m:fName>{sin}</m:fName><m:e>{x}</m:e></m:func>", "sin x"),
        ("<m:m><m:mr><m:e>{1}</m:e><m:e>{0}</m:e></m:mr><m:mr><m:e>{0}</m:e><m:e>{1}</m:e></m:mr></m:m>", "1, 0; 0, 1"),
        ("<m:borderBox><m:e>{E=mc}</m:e></m:borderBox>", "E=mc"),
    ],
)  # fmt: skip
def test_equations_are_text(equation: str, text: str):
    written = equation.replace("{", "<m:r><m:t>").replace("}", "</m:t></m:r>")
    assert text_of(paragraph("So ", f"<m:oMathPara><m:oMath>{written}</m:oMath></m:oMathPara>", ".")) == f"So {text}."


def level(number: int, style: str, text: str) -> str:
    start = '<w:start w:val="1"/>'
    return f'<w:lvl w:ilvl="{number}">{start}<w:numFmt w:val="{style}"/><w:lvlText w:val="{text}"/></w:lvl>'


def numbering(*forms: str) -> str:
    """Return lists 1, 2, ... of some forms, and list 9, which begins the first list anew."""
    written = [f'<w:abstractNum w:abstractNumId="{n}">{form}</w:abstractNum>' for n, form in enumerate(forms)]
    lists = [f'<w:num w:numId="{n + 1}"><w:abstractNumId w:val="{n}"/></w:num>' for n in range(len(forms))]
    restart = '<w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride>'
    return "".join([*written, *lists, f'<w:num w:numId="9"><w:abstractNumId w:val="0"/>{restart}</w:num>'])


NUMBERING = numbering(
    level(0, "decimal", "%1.") + level(1, "lowerLetter", "%1.%2)"),
    level(0, "bullet", "o"),
    level(0, "upperRoman", "Part %1"),
)


def style(style_id: str, title: str, based_on: str = "", properties: str = "") -> str:
    base = f'<w:basedOn w:val="{based_on}"/>' if based_on else ""
    return f'<w:style w:styleId="{style_id}"><w:name w:val="{title}"/>{base}<w:pPr>{properties}</w:pPr></w:style>'


STYLES = (
    style("berschrift1", "heading 1", properties='<w:numPr><w:numId w:val="3"/></w:numPr>')
    + style("Own", "Own", "berschrift1")
    + style("Loop", "Loop", "Loop")
)


def item(text: str, list_id: int, level: int = 0) -> str:
    return paragraph(text, properties=f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{list_id}"/></w:numPr>')


def test_numbers_of_lists_are_those_that_the_reader_sees():
    """A list continues after other text, unless the list begins anew."""
    body = (item("one", 1), item("a", 1, 1), item("b", 1, 1), paragraph("Text."), item("two", 1), item("a", 1, 1),
            item("bullet", 2), item("new", 9), item("none", 0))  # fmt: skip
    assert text_of(*body, numbering=NUMBERING).split("\n\n") == [
        "1. one", "1.a) a", "1.b) b", "Text.", "2. two", "2.a) a", "- bullet", "1. new", "none",
    ]  # fmt: skip


def test_headings_are_found_by_style_and_outline_level():
    """Styles of other languages, and styles based on such styles, are headings with numbers."""

    def styled(text: str, style: str) -> str:
        return paragraph(text, properties=f'<w:pStyle w:val="{style}"/>')

    outline = paragraph("Outline", properties='<w:outlineLvl w:val="1"/>')
    body = (styled("First", "berschrift1"), styled("Second", "Own"), outline, styled("Text", "Loop"))
    text = text_of(*body, styles=STYLES, numbering=NUMBERING)
    assert text == "# Part I First\n\n# Part II Second\n\n## Outline\n\nText"


def test_tables_keep_their_columns():
    """A merged cell is read once, a table in a cell in one line, and a table that lays out a page as text."""
    wide = '<w:tcPr><w:gridSpan w:val="2"/></w:tcPr>' + paragraph("wide")
    assert text_of(table((wide, "c"), ("1", "2", "3"))) == "| wide |  | c |\n| --- | --- | --- |\n| 1 | 2 | 3 |"
    inner = paragraph("see") + table(("x", "y"), ("1", "2"))
    assert text_of(table((inner, "b"))) == "| see x y; 1 2 | b |\n| --- | --- |"
    assert text_of(table((paragraph("One.") + paragraph("Two."),))) == "One.\n\nTwo."


def test_notes_follow_the_section_that_refers_to_them():
    notes = '<w:footnote w:id="-1" w:type="separator">' + paragraph("---") + '</w:footnote><w:footnote w:id="2">'
    notes += paragraph("<w:r><w:footnoteRef/></w:r>", "A note.") + "</w:footnote>"
    ends = '<w:endnote w:id="2">' + paragraph("An endnote.") + "</w:endnote>"
    body = (
        paragraph("Text", '<w:r><w:footnoteReference w:id="2"/></w:r>', " goes on."),
        paragraph("Next", properties='<w:outlineLvl w:val="0"/>'),
        paragraph("More", '<w:r><w:endnoteReference w:id="2"/></w:r>', "."),
    )
    assert text_of(*body, footnotes=notes, endnotes=ends).split("\n\n") == [
        "Text[^1] goes on.", "[^1]: A note.", "# Next", "More[^2].", "[^2]: An endnote.",
    ]  # fmt: skip


async def test_headers_and_footers_are_a_section_of_their_own(sources: SourceManager, tmp_path: Path):
    """Tables and watermarks in headers and footers are read, page numbers are not."""
    header = table(("Lake Office", "File 17")) + paragraph('<w:r><w:pict><v:textpath string="DRAFT"/></w:pict></w:r>')
    data = word_file(paragraph("Herons nest."), header=header, footer=paragraph("3"))
    (tmp_path / "a.docx").write_bytes(data)
    await sources.add_folder(tmp_path / "a.docx")
    section = await sources.read("local:a.docx#header-and-footer")
    assert section.text == "| Lake Office | File 17 |\n| --- | --- |\n\nDRAFT"
    assert (await sources.read("local:a.docx#start")).text == "Herons nest."


async def test_parts_that_are_not_read_are_named(sources: SourceManager, tmp_path: Path):
    """The result and the source name the parts, also when the file is unchanged."""
    picture = "<w:r><w:drawing><pic:pic/></w:drawing></w:r>"
    body = (
        paragraph("Herons", picture, picture, "."),
        paragraph("<w:r><w:drawing><c:chart/></w:drawing></w:r>"),
        "<w:altChunk/>",
    )
    (tmp_path / "a.docx").write_bytes(word_file(*body, comments="<w:comment/>"))
    (tmp_path / "b.md").write_text("# B\n\nText.", encoding="utf-8")
    for _ in range(2):
        added = await sources.add_folder(tmp_path)
        name = tmp_path.name
        assert added.omitted == {f"{name}/a.docx": "1 comment, 2 pictures, 1 chart, 1 embedded file"}
        assert f"1 incomplete ({name}/a.docx: 1 comment, 2 pictures, 1 chart, 1 embedded file)" in repr(added)
        assert not added.skipped


def test_strict_documents_are_read():
    assert read_word(word_file(paragraph("Strict."), namespace=STRICT)).text == "Strict."


async def test_entities_are_not_expanded(sources: SourceManager, tmp_path: Path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("word/document.xml", '<!DOCTYPE d [<!ENTITY e "many">]><d><p><t>&e;</t></p></d>')
    (tmp_path / "a.docx").write_bytes(buffer.getvalue())
    with pytest.raises(UsageError, match=r"a\.docx cannot be read: its XML declares a document type"):
        await sources.add_folder(tmp_path / "a.docx")
