"""The values in outputs and data files, with labels: row and column, words before a number, keys, an expression."""

import ast
import csv
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from artifactflow_nb.errors import UsageError
from artifactflow_nb.plugins.claims.documents import Cell, output_forms, read_text
from artifactflow_nb.plugins.claims.figures import Figure, read_figures
from artifactflow_nb.plugins.claims.language import lists, terms, units

_MOST_CHARACTERS = 2_000_000
_MOST_ROWS = 200_000
_MOST_DEPTH = 30
_PLAIN_NUMBER = re.compile(r"[-−+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][-+]?\d+)?|[-−]?\.\d+")
_COLUMNS = re.compile(r"\s{2,}|\t+|\s*\|\s*")
_UNIT_IN_BRACKETS = re.compile(r"[\[(（]\s*([^\])）]{1,12}?)\s*[\])）]")
_NUMPY = re.compile(
    r"^(?:np\.)?(?:float|int|uint)\d*\((.*)\)$|^(?:Decimal|Fraction|Timestamp|datetime64)\('(.*)'\)$", re.DOTALL
)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_ROW_TAG, _CELL_TAG = re.compile(r"<tr\b", re.IGNORECASE), re.compile(r"<t[dh]\b", re.IGNORECASE)
_CELL_END = re.compile(r"</(?:t[dhr]|table)\b", re.IGNORECASE)
_SERIES_END = re.compile(r"^(?:Name: (.*?), )?(?:Length: \d+, )?dtype: ")


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a value: the file, the cell and the output; the row and the column; a cell that made it stale."""

    cell: int | None = None
    output: int | None = None
    row: str = ""
    column: str = ""
    file: str = ""
    newer: int | None = None

    def __str__(self) -> str:
        source = [self.file, "" if self.cell is None else f"cell {self.cell}, output {self.output}"]
        labels = [f"row {self.row}" if self.row else "", f"column {self.column}" if self.column else ""]
        return ", ".join(filter(None, [*source, *labels]))


@dataclass(frozen=True, slots=True)
class Value:
    """A value of an output with the terms of its labels; a number outside of tables (-1) has a name, not a column."""

    figure: Figure
    place: Place
    row: frozenset[str] = frozenset()
    column: frozenset[str] = frozenset()
    table: int = -1
    name: str = ""

    @property
    def labels(self) -> frozenset[str]:
        """All terms of the labels."""
        return self.row | self.column


@cache
def _label_terms(text: str) -> frozenset[str]:
    synonyms = lists()["synonyms"]
    found = {synonyms.get(term, term) for term in terms(_UNIT_IN_BRACKETS.sub(" ", text))}
    short = text.strip().lower()
    return frozenset(found or ({synonyms.get(short, short)} if re.fullmatch(r"[^\W_]{1,2}|\d{1,4}", short) else ()))


@cache
def unit_of_label(label: str) -> tuple[str, float]:
    """Return the dimension and factor of the unit that a column's name ends with, such as `depth_km` or `t (°C)`."""
    by_unit = units()
    bracket = _UNIT_IN_BRACKETS.search(label)
    suffix = label.rpartition("_")[2] if "_" in label else ""
    for name in (bracket[1] if bracket else "", suffix):
        if name in {"pct", "percent", "perc"}:
            return by_unit["%"]
        if name in by_unit and (bracket or name not in {*"ABKxshtlLVJW"}):
            return by_unit[name]
    return "", 1.0


def _read_value(text: str, label: str = "") -> Figure | None:
    text = text.strip()
    if not text or len(text) > 60 or not re.search(r"\d", text):  # noqa: PLR2004 - a cell, not a sentence
        return None
    if _PLAIN_NUMBER.fullmatch(text):
        digits = text.replace(",", "").replace("−", "-")
        mantissa, _, exponent = digits.lower().partition("e")
        decimals = len(mantissa.partition(".")[2])
        dimension, factor = unit_of_label(label)
        try:
            number, step = float(digits), 10.0 ** (int(exponent or 0) - decimals)
        except (ValueError, OverflowError):
            return None
        return Figure(text, 0, len(text), number, step, dimension=dimension, factor=factor)
    if match := _NUMPY.match(text):
        return _read_value(match[1] or match[2], label)
    figures = [figure for figure in read_figures(text) if figure.kind != "name"]
    if figures and figures[0].start <= 1 and len(figures[0].text) >= len(text) - len(text) // 3 - 1:
        return replace(figures[0], is_about=False)
    return None


class OutputReader:
    """Reads values and numbers the tables."""

    def __init__(self) -> None:
        self.n_tables = 0

    def of_cell(self, cell: Cell, file: str = "", newer: int | None = None) -> Iterator[Value]:
        """Yield the values of a cell's stored outputs; `newer` is a cell that was executed after the outputs."""
        for number, output in enumerate(cell.outputs):
            forms = output_forms(output)
            place = Place(cell.number, number, file=file, newer=newer)
            if forms.get("application/json") is not None:
                yield from self.of_json(forms["application/json"], place)
            tables = html_tables(forms.get("text/html", ""))
            for table in tables:
                yield from self.of_table(table, place)
            if not tables and (text := forms.get("text/plain") or forms.get("text/markdown") or ""):
                lines = [line.strip() for line in cell.text.splitlines() if not re.match(r"\s*(?:#|$)", line)]
                call = re.compile(r"^(?:round|float|int|print|len|display)\((.*?)(?:,\s*\d+)?\)$")
                expression = call.sub(r"\1", lines[-1].rstrip(";"))[:120] if lines else ""
                yield from self.of_text(_ANSI.sub("", text), place, expression)

    def of_text(self, text: str, place: Place, expression: str = "") -> Iterator[Value]:
        """Yield the values of a printed text: a number, JSON, tables and lines."""
        single = _read_value(text)
        if single is not None:
            yield Value(single, replace(place, column=expression), column=_label_terms(expression), name=expression)
            return
        if text[:1] in "{[" and text.rstrip()[-1:] in "}]" and len(text) <= _MOST_CHARACTERS:
            plain = re.sub(r"(?:np\.)?(?:float|int)\d+\(([^()]*)\)", r"\1", text)
            for parse in (json.loads, ast.literal_eval):
                with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                    if isinstance(parsed := parse(plain), dict | list):
                        yield from self.of_json(parsed, place)
                        return
        for block in re.split(r"\n[^\S\n]*\n", text[:_MOST_CHARACTERS]):
            lines = block.rstrip().splitlines()
            if table := plain_table(lines):
                yield from self.of_table(table, place)
            else:
                for line in lines:
                    yield from line_values(line, place)

    def of_json(self, value: Any, place: Place, path: tuple[str, ...] = ()) -> Iterator[Value]:
        """Yield the numbers and dates of a JSON value, labelled by their keys."""
        if len(path) > _MOST_DEPTH:
            return
        if isinstance(value, dict):
            for key, each in value.items():
                yield from self.of_json(each, place, (*path, str(key)))
        elif isinstance(value, list):
            for each in value:
                yield from self.of_json(each, place, path)
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            label = path[-1] if path else ""
            figure = _read_value(str(value), label)
            if figure is not None:
                where = replace(place, row=" ".join(path[:-1]), column=label)
                yield Value(figure, where, _label_terms(where.row), _label_terms(label), name=label)

    def of_table(self, table: Sequence[Sequence[str]], place: Place) -> Iterator[Value]:
        """Yield the values of a table, of which the first row has the names of the columns."""
        self.n_tables += 1
        head, *rows = table
        labels = row_labels(head, rows)
        for row, label in zip(rows, labels, strict=True):
            row_terms = _label_terms(label) if label else frozenset()
            for name, text in zip(head[::-1], row[::-1], strict=False):  # rows of a sparse index have fewer cells
                figure = _read_value(text, name) if text != label else None
                if figure is not None:
                    where = replace(place, row=label, column=name)
                    yield Value(figure, where, row_terms, _label_terms(name), self.n_tables)


def row_labels(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the label of each row: the first cell that is a name or a year; the index 0, 1, 2 labels nothing."""
    firsts = [row[0] if row else "" for row in rows]
    is_counted = firsts == [str(number) for number in range(len(rows))]
    column = 1 if is_counted and len(head) > 1 else 0
    labels = [row[column] if len(row) > column and len(row) == len(head) else "" for row in rows]
    is_named = any(re.search(r"[^\W\d]", label) for label in labels)
    is_year = all(re.fullmatch(r"(?:1[5-9]|20)\d\d", label) for label in labels)
    return labels if is_named or (is_year and labels) else [""] * len(rows)


def line_values(line: str, place: Place) -> Iterator[Value]:
    """Yield the figures of a line, labelled by the words before them."""
    start = 0
    for figure in read_figures(line[:2000]):
        if figure.kind != "name":
            name = line[start : figure.start].strip(" :=,;|()[]")
            terms_before = _label_terms(name) | ({figure.noun} if figure.noun and not name else set())
            yield Value(figure, replace(place, column=name), column=terms_before, name=name)
            start = figure.end


def plain_table(lines: Sequence[str]) -> list[list[str]] | None:
    """Return the rows of a printed table, the head first; None for other texts."""
    lines = [line.rstrip("\\ \t") for line in lines if line.strip() and not re.fullmatch(r"[\s|+:=-]+", line)]
    lines = lines[:-1] if lines and re.match(r"^\[\d+ rows x \d+ columns\]$", lines[-1]) else lines
    if not lines:
        return None
    if end := _SERIES_END.match(lines[-1]):
        pairs = [re.split(r"\s{2,}", line.strip()) for line in lines[:-1]]
        return [["", end[1] or "value"], *(pair for pair in pairs if len(pair) == 2)]  # noqa: PLR2004
    rows = [_COLUMNS.split(line.strip().strip("|").strip()) for line in lines]
    if len(rows) < 2 or len(rows[0]) < 1:  # noqa: PLR2004 - a head and a row
        return None
    names, *body = rows
    if len(body[0]) == 1 and len(names) > 1 and lines[1][:1].strip():  # the name of the index has a line of its own
        body = body[1:]
    widths = {len(row) for row in body}
    if not body or any(_read_value(name) is not None and not re.fullmatch(r"\d{4}", name) for name in names):
        return None
    is_indexed = max(widths) == len(names) + 1
    if max(widths) < 2 or not (is_indexed or max(widths) == len(names)) or min(widths) < 2:  # noqa: PLR2004
        return None
    if not is_indexed and not any(_read_value(text) is not None for row in body for text in row):
        return None
    return [["", *names] if is_indexed else names, *body]


def html_tables(text: str) -> list[list[list[str]]]:
    """Return the tables of an HTML text; the row that pandas makes for the name of an index is left out."""
    tables = []
    for table in re.split(r"<table\b", text, flags=re.IGNORECASE)[1:]:
        rows = [[_cell_text(cell) for cell in _CELL_TAG.split(row)[1:]] for row in _ROW_TAG.split(table)[1:]]
        rows = [row for row in rows if row]
        if len(rows) > 2 and not any(rows[1][1:]) and rows[1][0]:  # noqa: PLR2004
            del rows[1]
        if len(rows) > 1:
            tables.append(rows)
    return tables


def _cell_text(cell: str) -> str:
    text = _CELL_END.split(cell.partition(">")[2], maxsplit=1)[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", text) if "<" in text else text).split())


def read_data_files(paths: Sequence[str | Path], reader: OutputReader) -> Iterator[Value]:
    """Yield the values of CSV, JSON and Parquet files, also of files in folders; `UsageError` for other files."""
    for path in map(Path, paths):
        files = sorted(each for each in path.rglob("*") if each.suffix in _READERS) if path.is_dir() else [path]
        if not path.exists():
            raise UsageError(f"{path} does not exist. Name a file or a folder with CSV, JSON or Parquet files.")
        for file in files:
            if file.suffix not in _READERS:
                raise UsageError(f"{file} is no data file; CSV, TSV, JSON and Parquet can be read.")
            try:
                yield from _READERS[file.suffix](file, reader)
            except UsageError:
                raise
            except ImportError:
                raise UsageError(f"{file} is a Parquet file, which needs pyarrow: pip install pyarrow") from None
            except (ValueError, OSError, RecursionError, csv.Error) as error:
                raise UsageError(f"{file} is no {file.suffix[1:].upper()} file: {error}. Save it again.") from None


def _of_csv(path: Path, reader: OutputReader) -> Iterator[Value]:
    text = read_text(path)
    delimiter = "\t" if path.suffix == ".tsv" else ";" if text[:500].count(";") > text[:500].count(",") else ","
    rows = islice(csv.reader(text.splitlines(), delimiter=delimiter), _MOST_ROWS)
    yield from _of_rows([row for row in rows if row], path, reader)


def _of_rows(rows: Sequence[Sequence[str]], path: Path, reader: OutputReader) -> Iterator[Value]:
    place = Place(file=path.name)
    if len(rows) > 1:
        yield from reader.of_table(rows, place)
        count = Figure(str(len(rows) - 1), 0, 0, len(rows) - 1, noun="row")
        yield Value(count, replace(place, column="rows"), column=_label_terms("rows count"), name="rows")


def _of_parquet(path: Path, reader: OutputReader) -> Iterator[Value]:
    import pandas as pd

    frame = pd.read_parquet(path)
    rows = [[str(name) for name in frame.columns], *frame.head(_MOST_ROWS).astype(str).to_numpy().tolist()]
    yield from _of_rows(rows, path, reader)


_READERS: Mapping[str, Callable[[Path, OutputReader], Iterator[Value]]] = {
    ".csv": _of_csv,
    ".tsv": _of_csv,
    ".json": lambda path, reader: reader.of_json(json.loads(read_text(path)), Place(file=path.name)),
    ".parquet": _of_parquet,
}
