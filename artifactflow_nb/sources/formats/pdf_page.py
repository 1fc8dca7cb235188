"""The lines of a page of a PDF in reading order, with the values of its form and its typed annotations."""

import ctypes
import importlib
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from artifactflow_nb.sources.formats.glyphs import name_glyphs, repair_glyphs
from artifactflow_nb.sources.formats.pdf_layout import Fragment, PlacedLine, may_have_columns, read_columns

_MAX_FRAGMENTS = 4_000  # a page with more is a drawing
_JOINED = "\ufffe"  # in a word that pdfium joined from two lines, and for a glyph without a character
_SAMPLES = 9  # characters that represent a page
_UNNAMED = r"[\0\x01\x03-\x08\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]"
_DAMAGE = re.compile(rf"(?<=[^\W\d_]){_UNNAMED}(?=\S)|{_UNNAMED}(?=[a-zß-ÿ])")
_MAX_UNNAMED_SHARE = 0.05
_FREE_TEXT, _STAMP, _WIDGET = 3, 13, 20  # FPDF_ANNOT_...
_COMMENTS = frozenset({1, 5, 6, 9, 10, 11, 12, 14})  # notes, shapes, highlights, carets
_UNSEEN = 2 | 32  # flags: hidden, not shown
_PASSWORD = 1 << 13  # flag of a field
_BUTTON, _CHECK_BOX, _RADIO_BUTTON, _COMBO_BOX, _LIST_BOX, _SIGNATURE = 1, 2, 3, 4, 5, 7  # FPDF_FORMFIELD_...


class PageLines(NamedTuple):
    """The lines of a page, without and with the heights of their fonts, and the number of comments, which are not read.

    `is_damaged` means that letters are unknown, because a font does not name them.
    """

    lines: list[PlacedLine]
    sizes: list[tuple[str, float]]
    n_comments: int
    is_damaged: bool


def read_lines(document: Any, page: Any, text_page: Any, with_sizes: bool = False) -> PageLines:
    """Read the lines of an open page column by column, also if the page is turned."""
    raw = importlib.import_module("pypdfium2.raw")
    with ExitStack() as opened:
        turns = _turns(raw, text_page)
        if turns != page.get_rotation() // 90:  # pdfium orders the lines of a turned page for the eye, not the text
            page.set_rotation(turns * 90)
            text_page = page.get_textpage()
            opened.callback(text_page.close)
        text = _page_text(raw, text_page)
        places = _place_lines(raw, text_page, text, turns)
        lines = [line for line, _ in places]
        sizes: list[tuple[str, float]] = []
        for line, index in places if with_sizes else ():
            box = raw.FS_RECTF()
            raw.FPDFText_GetLooseCharBox(text_page, index, ctypes.byref(box))  # as high as the font, for each letter
            sizes.append((line.text, float(abs(box.top - box.bottom))))
        fields, n_comments = _annotations(raw, document.formenv, page)
        columns = [] if turns or text.is_repaired else _in_columns(raw, text_page, lines)
        if columns or turns:
            lines = [*(columns or lines), *fields]
        elif fields:
            lines = _with_fields(raw, text_page, places, fields)
        return PageLines(lines, sizes, n_comments, text.is_damaged)


def _turns(raw: Any, text_page: Any) -> int:
    """Return by how many quarters of a circle a page must be turned clockwise for most of its text to be upright."""
    count = text_page.count_chars()
    angles = [raw.FPDFText_GetCharAngle(text_page.raw, count * n // _SAMPLES) for n in range(_SAMPLES)]
    if not any(angles):
        return 0
    ((turns, number),) = Counter(-round(angle / (math.pi / 2)) % 4 for angle in angles).most_common(1)
    return turns if count and number > _SAMPLES / 2 else 0


class _PageText(NamedTuple):
    """The text of a page, and a function that maps the index of a character in the text to the index on the page."""

    text: str
    page_index: Callable[[int], int]
    is_damaged: bool = False
    is_repaired: bool = False


def _page_text(raw: Any, text_page: Any) -> _PageText:
    text, count = str(text_page.get_text_range()), text_page.count_chars()
    index = partial(raw.FPDFText_GetCharIndexFromTextIndex, text_page)
    page_index = int if len(text) == count else index  # the text has all characters of the page, as on most
    has_error = partial(raw.FPDFText_HasUnicodeMapError, text_page.raw)
    if any(has_error(count * n // _SAMPLES) == 1 for n in range(_SAMPLES)):
        codes = [(raw.FPDFText_GetUnicode(text_page, n), has_error(n) == 1) for n in range(count)]
        unnamed = [code for code, is_unnamed in codes if is_unnamed]
        if named := name_glyphs(unnamed):
            glyphs = iter(named)
            chars = (next(glyphs) if is_unnamed else chr(code) for code, is_unnamed in codes)
            return _PageText("".join(chars), int, is_repaired=True)
        if len(unnamed) > _MAX_UNNAMED_SHARE * count:
            return _PageText(text, page_index, is_damaged=True)
    if text.replace("\r\n", "").isprintable() and "\ufffd" not in text:
        return _PageText(text, page_index)
    joined = (match.start() for match in re.finditer(_JOINED, text))
    zeros = {n for n in joined if not raw.FPDFText_GetUnicode(text_page, page_index(n))}
    text = repair_glyphs("".join("\ufffd" if n in zeros else char for n, char in enumerate(text)) if zeros else text)
    return _PageText(text, page_index, bool(_DAMAGE.search(text)))


def _place_lines(raw: Any, text_page: Any, page_text: _PageText, turns: int) -> list[tuple[PlacedLine, int]]:
    """Return the lines in the order of the file, each with the index of the first character."""
    handle = text_page.raw
    x, y = ctypes.c_double(), ctypes.c_double()
    places = ctypes.byref(x), ctypes.byref(y)
    page_index = page_text.page_index

    def place(text_index: int) -> tuple[float, float, int]:
        index = page_index(text_index)
        raw.FPDFText_GetCharOrigin(handle, index, *places)
        if not turns:
            return x.value, y.value, index
        return (*((y.value, -x.value), (-x.value, -y.value), (-y.value, x.value))[turns - 1], index)

    lines = []
    start = 0
    for line in page_text.text.split("\r\n"):
        if text := line.strip():
            first = start + line.index(text[0])
            left, top, index = place(first)
            bottom = place(first + len(text) - 1)[1] if _JOINED in text else top
            lines.append((PlacedLine(text, left, top, bottom), index))
        start += len(line) + 2
    return lines


def _in_columns(raw: Any, text_page: Any, lines: Sequence[PlacedLine]) -> list[PlacedLine]:
    """Order the lines of a page by column if the file has them by row; return an empty list for any other order."""
    count = raw.FPDFText_CountRects(text_page, 0, -1)
    if count > _MAX_FRAGMENTS or not may_have_columns([line.x for line in lines], count - len(lines)):
        return []
    left, top, right, bottom = (ctypes.c_double() for _ in range(4))
    places = [ctypes.byref(value) for value in (left, top, right, bottom)]
    boxes = []
    handle = text_page.raw
    for index in range(count):  # the wrapper of pypdfium2 takes twice the time
        raw.FPDFText_GetRect(handle, index, *places)
        boxes.append(Fragment(left.value, bottom.value, right.value, top.value))
    ordered = []
    for box in read_columns(boxes):
        margin = (box.top - box.bottom) / 20  # the lines above and below may touch the box
        text = text_page.get_text_bounded(box.left, box.bottom + margin, box.right, box.top - margin)
        ordered.append(PlacedLine(" ".join(str(text).split()), box.left, box.bottom, box.bottom))
    return [line for line in ordered if line.text]


def _annotations(raw: Any, form: Any, page: Any) -> tuple[list[PlacedLine], int]:
    """Return the values of fields and typed annotations at their places, and the number of comments."""
    fields: list[PlacedLine] = []
    n_comments = 0
    box = raw.FS_RECTF()
    for number in range(raw.FPDFPage_GetAnnotCount(page)):
        with ExitStack() as opened:
            annotation = raw.FPDFPage_GetAnnot(page, number)
            opened.callback(raw.FPDFPage_CloseAnnot, annotation)
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            if raw.FPDFAnnot_GetFlags(annotation) & _UNSEEN:
                continue
            if kind == _WIDGET and form is not None:
                text = _field_value(raw, form, annotation)
            else:
                text = _string(raw.FPDFAnnot_GetStringValue, annotation, b"Contents").strip()
                n_comments += bool(text) and kind in _COMMENTS
                text = text if kind in {_FREE_TEXT, _STAMP} else ""
            if text and raw.FPDFAnnot_GetRect(annotation, ctypes.byref(box)):
                fields.append(PlacedLine("\n".join(text.splitlines()), box.left, box.top, box.bottom))
    return fields, n_comments


def _field_value(raw: Any, form: Any, annotation: Any) -> str:
    """Return the displayed value of a field of a form, which is empty for buttons, signatures and passwords."""
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in {_CHECK_BOX, _RADIO_BUTTON}:
        return "☒" if raw.FPDFAnnot_IsChecked(form, annotation) else "☐"
    if kind in {_BUTTON, _SIGNATURE} or raw.FPDFAnnot_GetFormFieldFlags(form, annotation) & _PASSWORD:
        return ""
    if kind in {_COMBO_BOX, _LIST_BOX}:
        options = range(raw.FPDFAnnot_GetOptionCount(form, annotation))
        chosen = [option for option in options if raw.FPDFAnnot_IsOptionSelected(form, annotation, option)]
        if chosen:
            return ", ".join(_string(raw.FPDFAnnot_GetOptionLabel, form, annotation, option) for option in chosen)
    return _string(raw.FPDFAnnot_GetFormFieldValue, form, annotation).strip()


def _string(function: Callable[..., int], *arguments: Any) -> str:
    """Return the string that a function of pdfium writes into a buffer of UTF-16."""
    buffer = ctypes.create_string_buffer(function(*arguments, None, 0))
    function(*arguments, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), len(buffer))
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0")


def _with_fields(
    raw: Any, text_page: Any, places: Sequence[tuple[PlacedLine, int]], fields: Sequence[PlacedLine]
) -> list[PlacedLine]:
    """Put each field into the line beside the field, or above the first line below the field."""
    lines = [line for line, _ in places]
    x, y = ctypes.c_double(), ctypes.c_double()
    alone = []
    for field in sorted(fields, key=lambda field: -field.x):  # from the right, so that the places in a line stay
        number = next((n for n, (line, _) in enumerate(places) if field.end_y <= line.y <= field.y), None)
        if number is None:
            alone.append(field)
            continue
        line, first = places[number]
        position = 0
        for position in range(len(line.text) + 1):
            raw.FPDFText_GetCharOrigin(text_page, first + position, ctypes.byref(x), ctypes.byref(y))
            if x.value >= field.x:
                break
        text = lines[number].text
        pieces = text[:position].strip(), field.text, text[position:].strip()
        lines[number] = line._replace(text=" ".join(filter(None, pieces)))
    for field in alone:
        below = next((n for n, line in enumerate(lines) if line.y < field.end_y), len(lines))
        lines.insert(below, field._replace(y=field.end_y))
    return lines
