"""PDF files as sources: their layout, and files that cannot be read."""

import asyncio
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel
from support.pdf import PICTURE, Line, encrypted, lines_of, one_page, paragraph, pdf, stream

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.errors import UsageError
from artifactflow_nb.sources import reader_pool
from artifactflow_nb.sources.formats import pdf as pdf_format
from artifactflow_nb.sources.formats.pdf import read_pdf
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.store.database import Database

LEFT = [
    "Herons stand in water and",
    "wait for fish. They nest in",
    "tall trees near the lake,",
    "often in large colonies.",
]
RIGHT = [
    "Otters swim all day. They",
    "eat crabs and small fish,",
    "and sleep in a den that is",
    "dug into the river bank.",
]


def two_columns(*, by_row: bool) -> list[Line]:
    """Return a title across two columns of text."""
    left = paragraph(*LEFT, *LEFT, x=72, y=650)
    right = paragraph(*RIGHT, *RIGHT, x=320, y=650)
    rows = [line for pair in zip(left, right, strict=True) for line in pair]
    return [
        Line(72, 720, "Animals of the lake in two columns of this journal", 18),
        *(rows if by_row else left + right),
    ]


@pytest.mark.parametrize("by_row", [True, False])
def test_columns_are_read_one_after_the_other(by_row: bool) -> None:
    """Columns are read from left to right; the order of the lines in the file does not matter."""
    (page,) = read_pdf(pdf(two_columns(by_row=by_row)), 60).pages
    assert " ".join(page.split()) == " ".join(
        ["Animals of the lake in two columns of this journal", *2 * LEFT, *2 * RIGHT]
    )


def test_ragged_columns_with_a_line_across_are_read_in_order() -> None:
    """Lines of any length belong to their column; text above a line across both columns comes first."""
    left = [*LEFT[:3], "end.", *LEFT[:3], "and a longer line than others."]
    right = [*RIGHT[:2], "short.", "Swans rest on the lake all", *RIGHT]
    rows = []
    for n, pair in enumerate(zip(left, right, strict=True)):
        y = 650 - 14 * n - (40 if n > 3 else 0)
        rows += [Line(72, 566, "Figure 1. A caption goes across both of the columns of a page.")] if n == 4 else []
        rows += [Line(72, y, pair[0]), Line(320, y, pair[1])]
    (page,) = read_pdf(pdf(rows), 60).pages
    assert page.replace("\n\n", "\n").split("\n") == [
        *left[:4], *right[:4], "Figure 1. A caption goes across both of the columns of a page.", *left[4:], *right[4:],
    ]  # fmt: skip


def test_columns_of_single_words_are_read_in_order() -> None:
    """Some programs write each word separately, so that a column looks like a column of words."""
    rows = []
    for n, pair in enumerate(zip([*LEFT, *LEFT], [*RIGHT, *RIGHT], strict=True)):
        for x, text in zip((72, 330), pair, strict=True):
            for word in text.split():
                rows.append(Line(x, 650 - 14 * n, word))
                x += sum(3.3 if letter in "fijlrt.,I" else 9 if letter in "mwW" else 6.7 for letter in word)  # noqa: PLW2901
                x += 4  # noqa: PLW2901 - a space
    (page,) = read_pdf(pdf(rows), 60).pages
    assert "".join(page.split()) == "".join([*LEFT, *LEFT, *RIGHT, *RIGHT]).replace(" ", "")


def test_tables_are_read_by_row() -> None:
    """The cells of a table do not fill the columns."""
    rows = [(Line(72, 700 - 14 * n, f"Item {n}"), Line(400, 700 - 14 * n, f"{n * 7} crowns")) for n in range(12)]
    (page,) = read_pdf(pdf([cell for row in rows for cell in row]), 60).pages
    assert page.split("\n")[3] == "Item 3 21 crowns"


def test_running_heads_and_page_numbers_are_left_out() -> None:
    """Heads of even and odd pages differ, and the number of the first page is at the foot."""
    subjects = ["herons", "otters", "storks", "beavers", "swans", "geese"]
    pages = []
    for n, subject in enumerate(subjects, 11):
        head = f"{n}   A. Smith and B. Jones" if n % 2 else f"Animals of the lake   {n}"
        body = paragraph(f"This page is about {subject}.", f"Page {n - 10} says nothing else.", y=700)
        pages.append([*body, Line(300, 30, str(n), 9)] if n == 11 else [Line(72, 770, head, 9), *body])
    for subject, page in zip(subjects, read_pdf(pdf(*pages), 60).pages, strict=True):
        assert page == f"This page is about {subject}.\nPage {1 + subjects.index(subject)} says nothing else."


def pages_of(*edges: str, foot: bool = True, first: int = 1) -> list[str]:
    """Return the pages of a document, each with a title, its own line, body text, and a page number."""
    pages = []
    for n, edge in enumerate(edges, first):
        body = paragraph(f"Paragraph {chr(96 + n)} is long enough to be text.", "It has a second line.", y=680)
        number = [Line(300, 30, str(n), 9)] if foot else []
        pages.append([Line(72, 770, "Lake Report", 9), Line(72, 725, edge), *body, *number])
    return list(read_pdf(pdf(*pages), 60).pages)


@pytest.mark.parametrize(
    "edges",
    [
        ["Total 512 herons", "Total 498 herons", "Total 530 herons", "Total 611 herons"],
        ["1993", "2002", "2017", "2038"],
        ["Station 7: depth 512 cm", "Station 14: depth 498 cm", "Station 21: depth 530 cm", "Station 28: depth 5 cm"],
        ["Question 1", "Question 2", "Question 3", "Question 4"],
        ["Alder, 10 m", "Birch, 10 m", "Cedar, 10 m", "Elm, 10 m"],
    ],
    ids=["totals", "years", "two-numbers", "counted", "words"],
)
def test_data_at_the_edges_of_pages_stays(edges: list[str]) -> None:
    """Lines that differ by more than the page number are data, and so are numbers beside a page number."""
    pages = pages_of(*edges)
    assert [edge for edge, page in zip(edges, pages, strict=True) if edge in page] == edges
    assert [page.count("Lake Report") for page in pages] == [1, 0, 0, 0]
    assert not [page for page in pages if page.endswith(tuple("1234")) and not page.endswith(tuple(edges))]


def test_line_that_differs_by_the_page_number_is_a_head() -> None:
    """The line is removed except on the first page, where another head stands above the line."""
    pages = pages_of(*(f"A. Smith: Herons {n}" for n in range(1, 5)), foot=False)
    assert not [page for page in pages if "Smith" in page][1:]


def test_text_that_all_pages_share_is_not_removed() -> None:
    assert read_pdf(pdf(*["The same line."] * 5), 60).pages == ("The same line.",) * 5


def test_divided_words_are_joined() -> None:
    """A compound keeps the hyphen if the document has the compound, or its parts as words, elsewhere."""
    text = paragraph(
        "The infor-", "mation of a long-", "term study is well-", "known. It is a long study of one term, a",
        "well-known one. The Anglo-", "Saxon name.",
    )  # fmt: skip
    (page,) = read_pdf(pdf(text), 60).pages
    assert page == (
        "The information of a long-term study is well-known. It is a long study of one term, a\n"
        "well-known one. The Anglo-Saxon name."
    )


def test_paragraphs_are_separated() -> None:
    """A gap or the indentation of the first line separates two paragraphs."""
    lines = [*paragraph("One", "two", "three.", y=700), *paragraph("Four", "five.", y=640)]
    lines += [Line(90, 612, "Six is indented"), *paragraph("and goes on.", "Seven.", y=598)]
    (page,) = read_pdf(pdf(lines), 60).pages
    assert page.split("\n\n") == ["One\ntwo\nthree.", "Four\nfive.", "Six is indented\nand goes on.\nSeven."]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("The lake", "The lake"),
        ("Microsoft Word - paper.doc", "A study of herons and otters"),
        ("", "A study of herons and otters"),
    ],
)
def test_title_is_the_largest_type_of_the_first_page_without_a_title_in_the_file(title: str, expected: str) -> None:
    page = [Line(72, 750, "A study of", 20), Line(72, 728, "herons and otters", 20), *paragraph(*LEFT, *RIGHT)]
    assert read_pdf(pdf(page, title=title), 60).title == expected


# --- what is not in the contents of a page ---------------------------------------------------------------------------

FORM = lines_of(
    Line(72, 720, "Application for a permit"), Line(72, 690, "Name:"), Line(72, 660, "Fish:"), Line(72, 630, "Yes"),
    Line(132, 630, "No"), Line(72, 500, "Signed in Lund."),
)  # fmt: skip


def annotation(kind: str, box: str, more: str) -> bytes:
    return f"<< /Type /Annot /Subtype /{kind} /Rect [{box}] {more} >>".encode()


def test_values_of_a_form_stand_beside_their_labels() -> None:
    """Texts, choices and marks are read; passwords and hidden fields are not."""
    states = "/AP << /N << /On 15 0 R /Off 15 0 R >> >>"
    fields = [
        annotation("Widget", "220 686 420 702", "/FT /Tx /T (name) /V (Quillfeather)"),
        annotation(
            "Widget", "220 656 420 672", "/FT /Ch /Ff 131072 /T (fish) /Opt [[(a) (pike)] [(b) (perch)]] /V (b)"
        ),
        annotation("Widget", "110 626 122 640", f"/FT /Btn /T (yes) /V /On /AS /On {states}"),
        annotation("Widget", "160 626 172 640", f"/FT /Btn /T (no) /V /Off /AS /Off {states}"),
        annotation("Widget", "72 540 300 560", "/FT /Tx /T (remark) /V (Alone.)"),
        annotation("Widget", "220 456 420 472", "/FT /Tx /Ff 8192 /T (pw) /V (hunter2)"),
        annotation("Widget", "220 426 420 442", "/FT /Tx /F 2 /T (hidden) /V (hidden)"),
    ]
    numbers = " ".join(f"{n} 0 R" for n in range(6, 6 + len(fields)))
    unused = [b"null"] * 2
    data = one_page(
        FORM, *fields, *unused, stream(b""), page=f"/Annots [{numbers}]", catalog=f"/AcroForm << /Fields [{numbers}] >>"
    )
    (page,) = read_pdf(data, 60).pages
    assert page.replace("\n\n", "\n").split("\n") == [
        "Application for a permit", "Name: Quillfeather", "Fish: perch", "Yes ☒ No ☐", "Alone.", "Signed in Lund.",
    ]  # fmt: skip


def test_typed_annotations_are_text_and_comments_are_counted() -> None:
    data = one_page(
        FORM,
        annotation("FreeText", "300 680 420 700", "/Contents (Seen\\non 3 May)"),
        annotation("Text", "300 400 320 420", "/Contents (Why?)"),
        annotation("Highlight", "300 400 320 420", "/Contents ()"),
        page="/Annots [6 0 R 7 0 R 8 0 R]",
    )
    read = read_pdf(data, 60)
    assert "Name: Seen\non 3 May" in read.pages[0]
    assert "Why?" not in read.pages[0]
    assert read.omitted == "1 comment"


HERON = ("The heron stands in shallow water", "and waits for small fish.", "Then it strikes.")


@pytest.mark.parametrize("turned", [0, 90, 180, 270])
@pytest.mark.parametrize("written", [0, 90, 180, 270])
def test_turned_pages_are_read_in_order(turned: int, written: int) -> None:
    """The text may be written upright or turned, on a page that is turned or not; paragraphs are kept."""
    matrix, place = {
        0: ("1 0 0 1", lambda y: (72, 700 - y)),
        90: ("0 1 -1 0", lambda y: (100 + y, 72)),
        180: ("-1 0 0 -1", lambda y: (500, 100 + y)),
        270: ("0 -1 1 0", lambda y: (500 - y, 700)),
    }[written]
    rows = ((*place(y), text) for y, text in zip((0, 16, 80), HERON, strict=True))
    content = "".join(f"BT /F1 11 Tf {matrix} {x} {y} Tm ({text}) Tj ET\n" for x, y, text in rows)
    (page,) = read_pdf(one_page(content.encode(), page=f"/Rotate {turned}"), 60).pages
    assert page == f"{HERON[0]}\n{HERON[1]}\n\n{HERON[2]}"


def ligature_font(differences: bytes, unicode: str = "") -> tuple[bytes, bytes]:
    """Return a font with a ligature as the code 0x80, and the table of its characters."""
    codes = "".join(f"<{code:02X}> <{code:04X}>\n" for code in range(0x20, 0x7F))
    table = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap 1 begincodespacerange <00> <FF> "
        f"endcodespacerange 96 beginbfchar\n{codes}<80> <{unicode}>\nendbfchar endcmap end end"
    )
    encoding = b"<< /Type /Encoding /BaseEncoding /WinAnsiEncoding /Differences [128 /%b] >>" % differences
    widths = b"/FirstChar 0 /LastChar 255 /Widths [" + b"500 " * 256 + b"]"
    names = b"/ToUnicode 6 0 R" if unicode else b""
    return (
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica %b /Encoding %b %b >>" % (widths, encoding, names),
        stream(table.encode()),
    )


@pytest.mark.parametrize(
    ("unicode", "text"),
    [("FB01", "The office."), ("00660069", "The office."), ("F6C0", None), ("0000", None), ("E000", None), ("", None)],
)
def test_ligature_is_text_or_the_page_is_damaged(unicode: str, text: str | None) -> None:
    """A private character, no character, or a glyph without a name cannot be found by a search."""
    font, table = ligature_font(b"g17", unicode)
    read = read_pdf(one_page(b"BT /F1 12 Tf 72 700 Td (The of\x80ce.) Tj ET", table, font=font), 60)
    damaged = "damaged text on page 1: their fonts do not name all letters"
    assert (read.pages[0], read.omitted) == (text, "") if text else read.omitted == damaged


def test_private_characters_with_a_meaning_are_replaced() -> None:
    """Bullets and Greek letters of symbol fonts do not damage a page."""
    font, table = ligature_font(b"g17", "F0B7")
    read = read_pdf(one_page(b"BT /F1 12 Tf 72 700 Td (\x80 Herons nest.) Tj ET", table, font=font), 60)
    assert (read.pages, read.omitted) == (("• Herons nest.",), "")


def test_numbers_of_glyphs_are_read_as_letters() -> None:
    """A font without a table of its characters has its glyphs in the usual order; other orders are damaged text."""
    descendant = (
        b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /F /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) "
        b"/Supplement 0 >> /FontDescriptor 7 0 R /CIDToGIDMap /Identity /DW 600 >>"
    )
    descriptor = b"<< /Type /FontDescriptor /FontName /F /Flags 4 /FontBBox [0 0 1000 1000] /ItalicAngle 0 /Ascent 900 "
    descriptor += b"/Descent -200 /CapHeight 700 /StemV 80 >>"
    font = b"<< /Type /Font /Subtype /Type0 /BaseFont /F /Encoding /Identity-H /DescendantFonts [6 0 R] >>"
    text = "The quick heron measures the lake in spring."
    for shift, expected in ((29, text), (17, None)):
        codes = "".join(f"{ord(char) - shift:04X}" for char in text).encode()
        read = read_pdf(one_page(b"BT /F1 12 Tf 72 700 Td <%b> Tj ET" % codes, descendant, descriptor, font=font), 60)
        assert (read.pages[0] == text, bool(read.damaged)) == (expected is not None, expected is None)


# --- files that cannot be read -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (pdf(PICTURE, PICTURE), "needs OCR: its 2 pages are pictures without text. Add a copy with a text layer"),
        (encrypted(pdf("Secret."), "key"), "is encrypted and needs a password. Add a copy without a password"),
        (b"%PDF-1.4 nonsense", "cannot be read: it is not a PDF, or it is broken"),
        (pdf("Herons nest.")[:300], "cannot be read: it is not a PDF, or it is broken"),
        (b"", "is empty"),
        (pdf(), "cannot be read: it is not a PDF, or it is broken"),
        (pdf("", ""), "contains no text"),
    ],
    ids=["scan", "password", "nonsense", "cut", "empty", "no-pages", "blank"],
)
async def test_unreadable_pdf_is_skipped_with_one_clear_line(
    sources: SourceManager, tmp_path: Path, data: bytes, problem: str
) -> None:
    """The other files of the folder are indexed."""
    (tmp_path / "bad.pdf").write_bytes(data)
    (tmp_path / "good.pdf").write_bytes(pdf("Herons nest."))
    added = await sources.add_folder(tmp_path)
    assert [source.title for source in added.sources] == ["good"]
    (skipped,) = added.skipped
    assert skipped.path == "bad.pdf"
    assert skipped.reason == problem


async def test_restricted_pdf_without_a_password_is_read(sources: SourceManager, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(encrypted(pdf("Herons nest."), ""))
    (source,) = (await sources.add_folder(tmp_path)).sources
    assert (await sources.read(f"local:{source.source_id}#page-1")).text == "Herons nest."


async def test_scanned_pages_of_a_pdf_with_text_are_listed(sources: SourceManager, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("Herons nest.", PICTURE, "Otters swim.", PICTURE))
    added = await sources.add_folder(tmp_path / "a.pdf")
    assert added.omitted == {"a.pdf": "needs OCR for pages 2, 4, pictures without text"}
    assert len(added.sources) == 1


async def test_long_pdf_is_read_whole(sources: SourceManager, tmp_path: Path) -> None:
    """All 2,000 pages are read."""
    (tmp_path / "long.pdf").write_bytes(pdf(*[f"Bird number {n} was ringed." for n in range(1, 2001)]))
    added = await sources.add_folder(tmp_path)
    assert not added.skipped
    assert (await sources.read("local:" + added.source_ids[0] + "#page-1987")).text == "Bird number 1987 was ringed."


async def test_pages_beyond_the_limits_are_reported(
    sources: SourceManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first pages are indexed."""
    monkeypatch.setattr(pdf_format, "MAX_PAGES", 3)
    (tmp_path / "long.pdf").write_bytes(pdf("one", "two", "three", "four"))
    added = await sources.add_folder(tmp_path / "long.pdf")
    assert added.omitted == {"long.pdf": "only the first 3 of 4 pages were read"}
    assert read_pdf(pdf("one", "two"), -1).omitted == "only the first 0 of 2 pages were read"


# --- the pool ------------------------------------------------------------------------------------------------------


def children(pid: int | None = None) -> list[int]:
    """Return the ids of the pool's processes that a process started, by default this process."""
    command = ["pgrep", "-P", str(pid or os.getpid()), "-f", "reader_pool"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


def write_many(folder: Path, n: int, pages: int = 3) -> Path:
    folder.mkdir()
    for number in range(n):
        texts = [f"Bird {number} was seen on page {page}." for page in range(pages)]
        (folder / f"{number:03}.pdf").write_bytes(pdf(*texts, title=f"Birds {number}"))
    return folder


async def test_pool_reads_the_same_as_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken, an encrypted and a secret-bearing file are among the files; the processes end."""
    folder = write_many(tmp_path / "birds", 20)
    (folder / "005.pdf").write_bytes(b"%PDF-1.4 nonsense")
    (folder / "006.pdf").write_bytes(encrypted(pdf("x"), "key"))
    (folder / "007.pdf").write_bytes(pdf("The key is hunter2.", title="hunter2"))
    results = []
    for name, least in (("with", 8), ("without", 1000)):
        monkeypatch.setattr(reader_pool, "_MIN_FILES", least)
        database = Database(tmp_path / f"{name}.db")
        await database.open()
        sources = SourceManager(database, SystemClock(), lambda text: text.replace("hunter2", "[masked]"))
        added = await sources.add_folder(folder)
        rows = await database.read(
            lambda db: [
                tuple(row) for row in db.execute("SELECT source_id, anchor, title, text FROM sections ORDER BY 1, 2")
            ]
        )
        words = await database.read(lambda db: [tuple(row) for row in db.execute("SELECT * FROM passage_words")])
        results.append((repr(added), rows, sorted(words)))
        await database.close()
    assert results[0] == results[1]
    assert "18 added" in results[0][0]
    assert "hunter2" not in str(results)
    assert children() == []


async def test_cancelled_indexing_ends_the_processes(database: Database, tmp_path: Path) -> None:
    """The processes end at once, and the next call continues."""
    sources = SourceManager(database, SystemClock())
    folder = write_many(tmp_path / "birds", 60, pages=30)
    started = asyncio.Event()
    indexing = asyncio.create_task(sources.add_folder(folder, lambda *_: started.set()))
    await started.wait()
    assert children()
    indexing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await indexing
    while children():  # noqa: ASYNC110 - no event tells of the end of a process
        await asyncio.sleep(0.05)
    assert len(await sources.sources()) < 60
    assert len((await sources.add_folder(folder)).sources) == 60


def test_processes_end_when_the_kernel_is_killed(tmp_path: Path) -> None:
    """A script without a main guard indexes once, and leaves no process behind when the kernel dies."""
    write_many(tmp_path / "birds", 40, pages=40)
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
            import os, signal, subprocess, threading, time
            import artifactflow_nb as af
            print("started", flush=True)

            def kill():
                while not (found := listed()):
                    time.sleep(0.01)
                print(*found, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)

            def listed():
                command = ["pgrep", "-P", str(os.getpid()), "-f", "reader_pool"]
                return subprocess.run(command, capture_output=True, text=True).stdout.split()

            threading.Thread(target=kill).start()
            wb = af.Workbench(model=af.OfflineModel(), data_dir={str(tmp_path / "data")!r})
            wb.sources.add({str(tmp_path / "birds")!r})
        """),
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=60)
    started, *pids = done.stdout.split()
    assert started == "started"
    assert pids
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_interrupted_cell_leaves_no_process(tmp_path: Path) -> None:
    """The next call in the same kernel indexes the remaining files."""
    write_many(tmp_path / "birds", 60, pages=60)
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    try:
        client.execute_interactive(
            "import artifactflow_nb as af; wb = af.Workbench(model=af.OfflineModel())", timeout=60
        )
        client.execute("wb.sources.add('birds')")
        pid = manager.provisioner.pid
        while not (pids := children(pid)):
            time.sleep(0.02)
        manager.interrupt_kernel()
        reply = client.get_shell_msg(timeout=30)
        while reply["content"].get("status") != "error":  # that of the first cell may come before
            reply = client.get_shell_msg(timeout=30)
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        while children(pid):
            time.sleep(0.02)
        assert pids
        outputs: list[str] = []
        client.execute_interactive(
            "print(len(wb.sources.add('birds').sources))",
            timeout=120,
            output_hook=lambda message: outputs.append(str(message["content"].get("text", ""))),
        )
        assert "60" in "".join(outputs)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


async def test_file_that_kills_its_process_is_skipped(
    sources: SourceManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new process reads the other files."""
    folder = write_many(tmp_path / "birds", 12)
    command = (
        "import os; from artifactflow_nb.sources import reader_pool as p; real = p.read_file\n"
        "def read(file, *rest):\n    return os._exit(11) if file.path.name == '004.pdf' else real(file, *rest)\n"
        "p.read_file = read; p.serve()"
    )
    monkeypatch.setattr(reader_pool, "_COMMAND", command)
    added = await sources.add_folder(folder)
    assert added.added == 11
    assert [str(file) for file in added.skipped] == ["004.pdf cannot be read: it crashes pdfium"]


async def test_file_that_takes_too_long_is_skipped(
    sources: SourceManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_many(tmp_path / "birds", 9)
    command = (
        "import time; from artifactflow_nb.sources import reader_pool as p; real = p.read_file\n"
        "def read(file, *rest):\n    return time.sleep(99) if file.path.name == '004.pdf' else real(file, *rest)\n"
        "p.read_file = read; p.serve()"
    )
    monkeypatch.setattr(reader_pool, "_COMMAND", command)
    monkeypatch.setattr(reader_pool, "FILE_TIMEOUT_S", 1.0)
    added = await sources.add_folder(folder)
    assert added.added == 8
    assert [str(file) for file in added.skipped] == ["004.pdf cannot be read: it takes longer than 1 s"]


async def test_files_are_read_here_if_no_process_starts(
    sources: SourceManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_pool, "_COMMAND", "raise SystemExit(1)")
    assert (await sources.add_folder(write_many(tmp_path / "birds", 9))).added == 9


async def test_folder_of_scans_says_so(sources: SourceManager, tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(pdf(PICTURE))
    with pytest.raises(UsageError, match=r"scan\.pdf needs OCR: its 1 page is a picture without text"):
        await sources.add_folder(tmp_path / "scan.pdf")
