"""`af.check_notebook`: the figures of a notebook's prose against its stored outputs and data files."""

import copy
import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactflow_nb.core.text.cards import CardTable, card_frame
from artifactflow_nb.errors import UsageError
from artifactflow_nb.plugins.claims.checker import check
from artifactflow_nb.plugins.claims.documents import Cell, Document, read_document, stale_cells
from artifactflow_nb.plugins.claims.figures import Figure, read_figures
from artifactflow_nb.plugins.claims.matching import Context, ValueIndex
from artifactflow_nb.plugins.claims.prose import Claim, split_claims
from artifactflow_nb.plugins.claims.sources import Source
from artifactflow_nb.plugins.claims.values import OutputReader, Value, read_data_files

if TYPE_CHECKING:
    import pandas as pd

COUNTED = ("supported", "differs", "nowhere", "stale")  # of figures that are claims about the outputs

_CITED = re.compile(r"\[-?@|\]\([^)]+\)|\[\d{1,3}\]|https?://")
_LINKED = re.compile(r"\]\(([^)\s#]+\.(?:txt|md))\)")
SMALL_WORD = 12
_WORDS = {"supported": "in an output", "differs": "differ", "nowhere": "nowhere", "stale": "stale"}
_MARKS = {"supported": "✓", "differs": "✗", "nowhere": "?", "stale": "⟳"}
_COLUMNS = ("file", "cell", "text", "figure", "status", "reason", "where", "value")


@dataclass(frozen=True, slots=True)
class FigureCheck:
    """A figure of the prose with its status: supported, differs, nowhere, stale or unchecked.

    Cells count from 0, lines of the cell from 1. `value` is the value found, or the expression that gives the figure.
    """

    file: str
    cell: int
    text: str
    figure: str
    status: str
    reason: str
    where: str
    value: str
    start: int
    end: int
    line: int


@dataclass(frozen=True)
class NotebookReport:
    """The checked figures of notebooks and texts."""

    checks: Sequence[FigureCheck]
    documents: Sequence[Document]

    @property
    def counts(self) -> dict[str, int]:
        """The number of figures by status."""
        return {status: len(self.with_status(status)) for status in (*COUNTED, "unchecked")}

    def with_status(self, status: str) -> list[FigureCheck]:
        """Return the figures with a status."""
        return [each for each in self.checks if each.status == status]

    def __repr__(self) -> str:
        counts = self.counts
        total = sum(counts[status] for status in COUNTED)
        shown = [f"{counts[s]} {_WORDS[s]}" for s in COUNTED if counts[s] or s != "stale"]
        return f"{total} figure{'' if total == 1 else 's'}: {', '.join(shown)}"

    @cached_property
    def df(self) -> "pd.DataFrame":
        """The figures as a frame: file, cell, text, figure, status, reason, where, value."""
        import pandas as pd

        return pd.DataFrame(self.checks, columns=list(_COLUMNS))

    def _repr_html_(self) -> str:
        wrong = [each for each in self.checks if each.status in COUNTED[1:]]
        rows = [(each.cell, each.figure, each.status, each.reason, each.text) for each in wrong]
        table = CardTable.from_rows(("cell", "figure", "status", "reason", "text"), rows)
        return card_frame(f"<p>{self!r}</p>" + (table.html() if rows else ""))

    def annotated(self) -> dict[str, Any]:
        """Return a copy of the first notebook with a mark behind each figure of its prose.

        Errors: `UsageError` if no notebook was checked.
        """
        notebook = next((each for each in self.documents if each.content), None)
        if notebook is None:
            raise UsageError("Only a notebook can be annotated. Name an .ipynb file.")
        content: dict[str, Any] = copy.deepcopy(dict(notebook.content))
        texts = {cell.number: cell.text for cell in notebook.cells}
        for each in sorted(self.checks, key=lambda check: check.end, reverse=True):
            if each.file == str(notebook.path) and each.status in _MARKS:
                mark = f'<sup title="{html.escape(f"{each.status}: {each.reason}")}">{_MARKS[each.status]}</sup>'
                texts[each.cell] = f"{texts[each.cell][: each.end]}{mark}{texts[each.cell][each.end :]}"
                content["cells"][each.cell]["source"] = texts[each.cell]
        return content


def check_notebook(
    *paths: str | Path, data: Sequence[str | Path] | str | Path = (), annotate: str | Path | None = None
) -> NotebookReport:
    """Check the figures in the prose of notebooks and texts against stored outputs and data files.

    Nothing is executed, no model is asked, and the notebook is not written.

    Args:
        paths: A notebook, further notebooks, and Markdown reports whose figures come from them.
        data: CSV, TSV, JSON and Parquet files, or folders with such files.
        annotate: A new file for a copy of the first notebook with a mark behind each figure.

    Errors: `UsageError` for a file that cannot be read, and if `annotate` names a file that is checked.
    """
    if not paths:
        raise UsageError("check_notebook needs a file, such as check_notebook('paper.ipynb').")
    documents = [read_document(path) for path in paths]
    reader = OutputReader()
    n_notebooks = sum(bool(document.code) for document in documents)
    values: list[Value] = []
    for document in documents:
        stale, file = stale_cells(document.code), document.path.name if n_notebooks > 1 else ""
        values += (each for cell in document.code for each in reader.of_cell(cell, file, stale.get(cell.number)))
    values += read_data_files([data] if isinstance(data, str | Path) else data, reader)
    index = ValueIndex(values)
    checks = [
        each for document in documents for cell in document.cells for each in _Cell(document, cell, index).checks()
    ]
    report = NotebookReport(checks, documents)
    if annotate is None:
        return report
    if Path(annotate).resolve() in {document.path.resolve() for document in documents}:
        raise UsageError(f"{annotate} is the notebook itself, which is not written. Name another file.")
    try:
        text = json.dumps(report.annotated(), ensure_ascii=False, indent=1)
        Path(annotate).write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{annotate} cannot be written: {error.strerror}. Name another file.") from None
    return report


class _Cell:
    """The figures of one cell."""

    def __init__(self, document: Document, cell: Cell, index: ValueIndex) -> None:
        self._document, self._cell, self._index = document, cell, index

    def checks(self) -> Iterator[FigureCheck]:
        for claim in split_claims(self._cell.text):
            figures = read_figures(claim.text)
            context = Context(claim, figures)
            raw = self._cell.text[claim.start : claim.start + len(claim.text) + 200].split("\n\n")[0]
            cited = raw if _CITED.search(raw[: len(claim.text) + 40]) else ""
            yield from (self.of_figure(figure, context, cited) for figure in figures)

    def of_figure(self, figure: Figure, context: Context, cited: str) -> FigureCheck:
        claim = context.claim
        match = None if figure.kind == "name" or claim.kind == "quote" else self._index.match(figure, context)
        where, value = (str(match.place), match.value) if match else ("", "")
        written, status = figure.text.strip(), "unchecked"
        if figure.kind == "name":
            reason = "A number of a section, a version or another identifier."
        elif claim.kind == "quote":
            reason = "A quote."
        elif match and match.status == "differs" and not cited:
            status, reason = "differs", f"{value} there, not {written}."
        elif match and match.status == "supported":
            newer = match.place.newer
            status = "supported" if newer is None else "stale"
            reason = f"{value} there." if newer is None else f"Cell {newer} was executed after the output."
        elif cited:
            status, reason, where = self.of_cited(claim, cited)
        elif figure.kind == "year" or (figure.is_word and figure.value <= SMALL_WORD):
            reason = "A year, or a small number in words."
        elif not self._index.values:  # noqa: PD011 - no frame
            reason = "No output and no data file has values."
        else:
            status, reason = "nowhere", f"{written} is in no output."
        start, end = claim.start + figure.start, claim.start + figure.end
        line = self._cell.text.count("\n", 0, start) + 1
        place = str(self._document.path), self._cell.number
        return FigureCheck(*place, claim.named, written, status, reason, where, value, start, end, line)

    def of_cited(self, claim: Claim, raw: str) -> tuple[str, str, str]:
        for name in _LINKED.findall(raw):
            path = self._document.path.parent / name
            if path.is_file() and path.resolve().is_relative_to(self._document.path.parent.resolve()):
                verdict = check(claim, [Source(path.read_text(encoding="utf-8", errors="replace"), name)])
                words = {"supported": "supported", "contradicted": "differs", "unsupported": "nowhere"}
                return words.get(verdict.status, "unchecked"), verdict.reason, name
        return "unchecked", "The sentence cites a source, which is not read.", ""
