"""The values of a call written as elements: exactly as written, or `Unreadable` where only a guess would end them."""

import re
from typing import Final

from artifactflow_nb.call_json import Unreadable
from artifactflow_nb.call_places import CDATA_CLOSE, CDATA_OPEN, CDATA_OPENING, Places, Span, plain

_SECTION_BREAK = CDATA_CLOSE + CDATA_OPEN
_ITEM = re.compile(r"\s*+<item(?:\s[^<>/]*+)?(/?)>", re.IGNORECASE)
_MARKUP = re.compile(r"<[/!A-Za-z_]")
_LIST_END = re.compile(r"\s*+<(/?)([A-Za-z_][\w.:-]*+)[^<>]*+>")
_NEXT = re.compile(
    r"\s*+(?:</(?P<closed>[A-Za-z_][\w.:-]*+)\s*+>|(?P<section><[A-Za-z_][\w.-]*+[^<>]*+>\s*+<!\[CDATA\[)"
    r"|(?P<sibling><[A-Za-z_][^<>]*+>)|(?P<end>\Z))"
)
_ENTITIES: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_ENTITY = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#([0-9]{1,7})|#[xX]([0-9A-Fa-f]{1,6}));")
_ENDS_OF_CALLS = {"params", "parameters", "arguments", "tool_call", "function", "invoke"}


class ValueReader:
    """Reads the values in a text.

    Args:
        places: The text and where things stand in it.
        cut: Whether the text is known to end too early.
    """

    def __init__(self, places: Places, *, cut: bool) -> None:
        self._places = places
        self._text = places.text
        self._cut = cut

    def parameter(self, opened: int, tag: str, ends: tuple[str, ...]) -> tuple[str | list[str], int]:
        """The value behind the tag that ends at `opened`, and where reading goes on; `ends` are the call's own tags."""
        if _ITEM.match(self._text, opened):
            return self._items(opened, tag, ends)
        return self.value(opened, tag, ends)

    def _items(self, opened: int, tag: str, ends: tuple[str, ...]) -> tuple[list[str], int]:
        values: list[str] = []
        position = opened
        while match := _ITEM.match(self._text, position):
            value, position = ("", match.end()) if match[1] else self.value(match.end(), "item", ends)
            values.append(value)
        following = _LIST_END.match(self._text, position)
        if not following:
            raise Unreadable(f"the list in <{tag}> is not closed", position)
        own = following[1] and plain(following[2]) == plain(tag)
        return values, following.end() if own else position

    def value(self, opened: int, tag: str, ends: tuple[str, ...]) -> tuple[str, int]:
        """One text behind the tag that ends at `opened`, and where reading goes on."""
        if opening := CDATA_OPENING.match(self._text, opened):
            return self._cdata(opening.end(), opened, tag, ends)
        limit = self._places.closing(ends, opened)
        stop = limit[0] if limit else len(self._text)
        close = self._places.partner(opened)
        if close and close[0] < stop:
            return self._plain(opened, close[0], tag), close[1]
        if limit and not close:
            outer = self._places.closing(("params",), opened)
            stop = min(stop, outer[0]) if outer else stop
            if not _MARKUP.search(self._text, opened, stop):
                return self._plain(opened, stop, tag), stop
        raise self._open(tag, opened)

    def _plain(self, start: int, end: int, tag: str) -> str:
        if CDATA_OPEN in (written := self._text[start:end]):
            raise Unreadable(f"<{tag}> holds text beside its CDATA section", end)
        if written.rstrip().endswith(CDATA_CLOSE):
            raise Unreadable(f"<{tag}> ends with {CDATA_CLOSE}, but has no CDATA section", end)
        return unescape(written)

    def _cdata(self, start: int, opened: int, tag: str, ends: tuple[str, ...]) -> tuple[str, int]:
        """Read CDATA sections; a `]]>` that does not look like their end belongs to the value."""
        end = self._places.section_end(start)
        close = self._places.partner(opened)
        if end is None:
            return self._unended(start, close, tag, ends)
        own = self._places.cdata_closing(tag, end)
        if own is None and close and start <= close[0] < end:
            return self._text[start : close[0]], close[1]  # the section was never ended; a later one was
        ends_here = self._ends_without_tag(start, end, own)
        if own and (own[0] == end or not ends_here):
            return joined(self._text[start : own[0]]), own[1]
        if ends_here:
            return joined(self._text[start:end]), end + len(CDATA_CLOSE)
        raise self._open(tag, opened)

    def _unended(self, start: int, close: Span | None, tag: str, ends: tuple[str, ...]) -> tuple[str, int]:
        """Read a section that nothing ends but the tags of its parameter and its call."""
        if close and not self._cut and self._places.closing(("params", *ends), close[1]):
            return self._text[start : close[0]], close[1]
        raise Unreadable(f"the end of <{tag}> is missing", len(self._text))  # all that follows may belong to it

    def _ends_without_tag(self, start: int, end: int, own: Span | None) -> bool:
        """Whether the value ends at this `]]>` though its own closing tag does not follow."""
        following = _NEXT.match(self._text, end + len(CDATA_CLOSE))
        if not following:
            return False
        closed = following["closed"]
        if closed is None:
            return own is None or not following["sibling"]
        if plain(closed) in _ENDS_OF_CALLS:
            return True
        # A misspelt closing tag ends the value; one that was opened within the value belongs to it.
        return self._text.find("<" + closed, start, end) < 0

    def _open(self, tag: str, opened: int) -> Unreadable:
        """The value's end is not sure; what stands up to its own closing tag, if there is one, may be part of it."""
        close = self._places.partner(opened)
        known = close[1] if close else len(self._text) if self._cut else opened
        return Unreadable(f"the end of <{tag}> is missing or not clear", known)


def unescape(value: str) -> str:
    """The text with XML's five named entities and the numeric ones replaced; all others are left as they are."""
    return _ENTITY.sub(_character, value)


def _character(match: re.Match[str]) -> str:
    if match[1]:
        return _ENTITIES[match[1]]
    code = int(match[2]) if match[2] else int(match[3], 16)
    is_character = 0 < code < 0xD800 or 0xDFFF < code <= 0x10FFFF  # noqa: PLR2004 - the surrogates' range
    return chr(code) if is_character else match[0]


def joined(sections: str) -> str:
    """The text of CDATA sections that follow each other."""
    return sections.replace(_SECTION_BREAK, "")
