"""The parts of a Word document: its files, the styles of paragraphs, the numbers of lists, and equations.

Elements are distinguished by their names without namespaces, which differ in strict documents.
"""

import io
import re
import zipfile
from collections import defaultdict
from typing import NamedTuple
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from artifactflow_nb.sources.formats.sections import UnreadableFile

_MAX_UNPACKED_BYTES = 200_000_000  # a small archive may unpack to any size
_HEADING = re.compile(r"heading ([1-6])", re.IGNORECASE)
_BODY_LEVEL = 10  # the outline level of text that is not a heading
_ROMAN = ((100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))


def name(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def child(element: Element | None, tag: str) -> Element | None:
    """Return the first child with a name, or None; None has no child."""
    return None if element is None else next((part for part in element if name(part) == tag), None)


def value(element: Element | None, attribute: str = "val") -> str:
    """Return an attribute by its name without namespace, or an empty string."""
    attributes = {} if element is None else element.attrib
    return next((text for key, text in attributes.items() if key.rpartition("}")[2] == attribute), "")


def is_on(element: Element | None) -> bool:
    """Return whether a property is on; a property without a value is on."""
    return element is not None and value(element) not in {"0", "false", "off"}


def parts(data: bytes) -> dict[str, list[Element]]:
    """Return the roots of the files of a document by kind: `document`, `styles`, `header`, ...

    Errors: `zipfile.BadZipFile` for another file; `UnreadableFile` for a file that is too large.
    """
    roots = defaultdict(list)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        if size > _MAX_UNPACKED_BYTES:
            raise UnreadableFile(f"is too large: it unpacks to {size / 1e6:,.0f} MB")
        for path in archive.namelist():
            # Some programs write backslashes into paths.
            if file := re.fullmatch(r"(?:word|docprops)/([a-z]+)\d*\.xml", path.replace("\\", "/").lower()):
                content = archive.read(path)
                if b"<!DOCTYPE" in content[:1024]:  # the format has none, and entities may grow to any size
                    raise UnreadableFile("cannot be read: its XML declares a document type")
                roots[file[1]].append(ET.fromstring(content))  # noqa: S314 - it has no entities
    return roots


class ParagraphStyle(NamedTuple):
    """The properties of a paragraph; `heading` is 0 for other text, `list_id` is empty outside a list."""

    heading: int = 0
    list_id: str = ""
    list_level: int = 0


class Styles:
    """The styles of a document."""

    def __init__(self, roots: list[Element]) -> None:
        self._elements = {value(style, "styleId"): style for root in roots for style in root if name(style) == "style"}
        self._styles: dict[str, ParagraphStyle] = {}

    def of(self, properties: Element | None) -> ParagraphStyle:
        """Return the style of a paragraph with these properties."""
        return self._extend(self._named(value(child(properties, "pStyle"))), properties)

    def is_hidden(self, properties: Element | None) -> bool:
        """Return whether text with these properties is hidden, also by its style."""
        for _ in range(len(self._elements) + 1):  # styles may be based on each other
            if (own := child(properties, "vanish")) is not None:
                return is_on(own)
            style = self._elements.get(value(child(properties, "rStyle")))
            properties = child(style, "rPr")
        return False

    def _named(self, style_id: str) -> ParagraphStyle:
        if style_id not in self._styles:
            self._styles[style_id] = ParagraphStyle()  # for a style that is based on itself
            element = self._elements.get(style_id)
            style = self._extend(self._named(value(child(element, "basedOn"))), child(element, "pPr"))
            title = value(child(element, "name"))
            heading = int(match[1]) if (match := _HEADING.fullmatch(title)) else int(title == "Title")
            self._styles[style_id] = style._replace(heading=heading or style.heading)
        return self._styles[style_id]

    @staticmethod
    def _extend(base: ParagraphStyle, properties: Element | None) -> ParagraphStyle:
        numbers, outline = child(properties, "numPr"), value(child(properties, "outlineLvl"))
        heading = (int(outline) + 1) % _BODY_LEVEL if outline else base.heading
        level = int(value(child(numbers, "ilvl")) or base.list_level)
        return ParagraphStyle(heading, value(child(numbers, "numId")) or base.list_id, level)


class ListNumbers:
    """Counts the paragraphs of lists, as Word does: a document does not contain their numbers."""

    def __init__(self, roots: list[Element]) -> None:
        entries = [entry for root in roots for entry in root]
        self._forms = {value(entry, "abstractNumId"): entry for entry in entries if name(entry) == "abstractNum"}
        self._lists = {value(entry, "numId"): entry for entry in entries if name(entry) == "num"}
        self._counts: dict[str, dict[int, int]] = defaultdict(dict)

    def label(self, list_id: str, level: int) -> str:
        """Return the next number of a list with a space, `- ` for a bullet, or "" outside of a list."""
        entry = self._lists.get(list_id)
        form_id = value(child(entry, "abstractNumId"))
        levels = {int(value(part, "ilvl")): part for part in self._forms.get(form_id, ()) if name(part) == "lvl"}
        if entry is None or level not in levels:
            return ""
        counts = self._counts[form_id]
        for change in (part for part in entry if name(part) == "lvlOverride"):  # the list begins anew, once
            if start := value(child(change, "startOverride")):
                counts[int(value(change, "ilvl"))] = int(start) - 1
            entry.remove(change)
        starts = {number: int(value(child(part, "start")) or 1) for number, part in levels.items()}
        higher = {number: counts.get(number, starts[number]) for number in starts if number < level}
        self._counts[form_id] = counts = {**higher, level: counts.get(level, starts[level] - 1) + 1}
        numbers = {f"%{n + 1}": _number(count, value(child(levels[n], "numFmt"))) for n, count in counts.items()}
        text = re.sub(r"%\d", lambda place: numbers.get(place[0], ""), value(child(levels[level], "lvlText")))
        text = "-" if value(child(levels[level], "numFmt")) == "bullet" else text
        return f"{text} " if text else ""


def _number(number: int, style: str) -> str:
    """Write a number in the style of a list; a number in an unknown style is written in digits."""
    text = str(number)
    if style.endswith("Letter"):
        text = chr(ord("a") + (number - 1) % 26) * ((number + 25) // 26)
    elif style.endswith("Roman"):
        text = ""
        for size, letters in _ROMAN:
            text, number = text + letters * (number // size), number % size
    return text.upper() if style.startswith("upper") else text


def equation_text(element: Element) -> str:
    """Write an equation in one line, such as `x^2+(a+b)/2`; only the text of unknown elements is written."""
    tag = name(element)
    if tag == "t":
        return element.text or ""
    texts = [(name(part), equation_text(part)) for part in element if not name(part).endswith("Pr")]
    grouped = {kind: text if text.isalnum() else f"({text})" for kind, text in texts if text}
    scripts = "".join(f"{sign}{grouped[kind]}" for kind, sign in (("sub", "_"), ("sup", "^")) if kind in grouped)
    properties = child(element, f"{tag}Pr")
    if tag == "f":
        return f"{grouped.get('num', '')}/{grouped.get('den', '')}"
    if tag in {"sSup", "sSub", "sSubSup"}:
        return f"{grouped.get('e', '')}{scripts}"
    if tag == "nary":
        return f"{value(child(properties, 'chr')) or '∫'}{scripts} {dict(texts).get('e', '')}"
    if tag == "rad":
        return f"{dict(texts).get('deg', '')}√{grouped.get('e', '')}"
    separator = {"m": "; ", "eqArr": "; ", "mr": ", ", "func": " ", "d": "|"}.get(tag, "")
    text = separator.join(text for _, text in texts)
    if tag != "d":
        return text
    begin, end = (child(properties, mark) for mark in ("begChr", "endChr"))
    return f"{'(' if begin is None else value(begin)}{text}{')' if end is None else value(end)}"
