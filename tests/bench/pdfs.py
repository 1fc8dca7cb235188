"""The time of indexing PDF files, compared with what pdfium alone needs to read their text.

Wall time, because processes of their own read the files: with two cores, they also split texts and find terms in the
time that pdfium needs on one.
"""

import statistics
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pypdfium2
from bench.figures import Figure
from bench.source_files import Writer
from support.pdf import Line, paragraph, pdf

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.store.database import Database

FILES, PAGES = 120, 20
ROUNDS = 3
TARGET = 1.3


async def figures(n_files: int = FILES) -> AsyncIterator[Figure]:
    """Wall time per page of indexing, the median of three rounds that alternate with pdfium alone."""
    with tempfile.TemporaryDirectory() as place:
        papers = Path(place) / "papers"
        papers.mkdir()
        writer = Writer()
        for number in range(n_files):
            pages = [_page(writer, number, page) for page in range(1, PAGES + 1)]
            (papers / f"{number:03}.pdf").write_bytes(pdf(*pages, title=f"Paper {number}"))
        indexing, alone = [], []
        for number in range(ROUNDS):
            alone.append(_read_alone(papers))
            indexing.append(await _index(papers, Path(place) / f"store-{number}.db", n_files))
            alone.append(_read_alone(papers))
        n_pages = n_files * PAGES
        name = f"index {n_files} PDFs of {PAGES} pages / pdfium alone"
        costs = (statistics.median(times) * 1000 / n_pages for times in (indexing, alone))
        yield Figure(name, *costs, "ms a page", TARGET)


def _page(writer: Writer, number: int, page: int) -> list[Line]:
    """A page with a head, 46 lines of text and a page number."""
    lines = textwrap.wrap(writer.text(4200).encode("ascii", "ignore").decode(), 88)[:46]
    return [Line(72, 775, f"Paper {number}", 9), *paragraph(*lines, y=745, size=11), Line(300, 30, str(page), 9)]


async def _index(papers: Path, store: Path, n_files: int) -> float:
    """Seconds for indexing the files in a new store."""
    database = Database(store)
    await database.open()
    started = time.perf_counter()
    added = await SourceManager(database, SystemClock()).add_folder(papers)
    took = time.perf_counter() - started
    await database.close()
    if added.added != n_files or added.skipped:
        raise AssertionError(f"Not all was read: {added!r}")
    return took


def _read_alone(papers: Path) -> float:
    """Seconds for reading the text of every page with pdfium in one process."""
    started = time.perf_counter()
    for path in sorted(papers.iterdir()):
        document = pypdfium2.PdfDocument(path.read_bytes())
        for page in document:
            text_page = page.get_textpage()
            text_page.get_text_range()
            text_page.close()
            page.close()
        document.close()
    return time.perf_counter() - started
