"""The text of a rendered block, in which a statement is found by its letters and digits, whatever markup is around."""

import html
import re
from collections.abc import Callable, Collection, Iterator

_TOKEN = re.compile(r"<(?P<end>/?)(?P<tag>\w+)[^>]*>|&#?\w+;|[^<&]+|[<&]")
_SKIPPED = re.compile(r'<(?:span class="af-(?:cite|math)|pre|sup|math)\b')
_CODE = re.compile(r"[^\nA-Za-z_]|(?<=\s)[a-z](?=\s)")
_AFTER = re.compile(
    r"</(?:strong|em|a|code|b|i|del|s)>|[.,;:!?%。！？；，：、)”’\"'»）】」』…]+"
    r'|\s*(?:<sup\b.*?</sup>|<span class="af-cite".*?</span></span>)'
)
_COUNTED = re.compile(r"[^\W_]|(?<=\d)[.,](?=\d)|(?<![^\W_])[-−](?=\d)")


def key_of(text: str) -> str:
    """Return the letters and digits of a text, with the signs and points of its numbers."""
    return "".join(_COUNTED.findall(text))


class RenderedText:
    """The text of a block of HTML, with the place of each character; citations, formulas and notes are left out.

    Args:
        markup: The HTML.
        blank: Replaces the characters of the text that do not count by spaces, character for character.
    """

    def __init__(self, markup: str, blank: Callable[[str], str]) -> None:
        self._markup = markup
        self._places: list[tuple[int, int]] = []
        self._tables: list[list[list[tuple[int, int]]]] = []
        pieces: list[str] = []
        depth, outer, is_code = 0, "", False
        for token in _TOKEN.finditer(markup):
            tag, place = token["tag"], token.start()
            if depth:
                depth += (tag == outer) * (-1 if token["end"] else 1)
            elif tag and _SKIPPED.match(token[0]):
                depth, outer = 1, tag
                pieces.append(" ")
                self._places.append((place, place))
            elif tag == "code":
                is_code = not token["end"]
            elif tag == "table" and not token["end"]:
                self._tables.append([])
            elif tag == "tr" and not token["end"] and self._tables:
                self._tables[-1].append([])
            elif tag in {"td", "th"} and self._tables:
                start = self._tables[-1][-1].pop()[0] if token["end"] else len(self._places)
                self._tables[-1][-1].append((start, len(self._places)))
            elif not tag:
                sign = html.unescape(token[0]) if token[0][0] == "&" else ""
                pieces.append(sign or (_CODE.sub(" ", token[0]) if is_code else token[0]))
                self._places += [token.span()] * len(sign) or [(n, n + 1) for n in range(place, token.end())]
        self._text = blank("".join(pieces))
        self._letters = [match.start() for match in _COUNTED.finditer(self._text)]

    def find(self, keys: Collection[str]) -> Iterator[tuple[str, int, int]]:
        """Yield the keys that are in the text with their places: first cells of tables, then whole words.

        The key of a cell has the first cell of its row, the head of its column, and the cell; see `key_of`.
        """
        marked = bytearray(len(self._text))
        for head, row in ((table[0], row) for table in self._tables for row in table):
            for title, (start, end) in zip(head, row, strict=False):
                marked[start:end] = b"1" * (end - start)
                key = key_of(" ".join(self._text[a:b] for a, b in (row[0], title, (start, end))))
                if key in keys and (start, end) != row[0]:
                    yield key, start, end
        letters = "".join(self._text[place] for place in self._letters)
        for key in sorted(keys, key=len, reverse=True):
            at = letters.find(key)
            while at >= 0:
                start, end = self._letters[at], self._letters[at + len(key) - 1] + 1
                before, after = self._letters[:at][-1:], self._letters[at + len(key) :][:1]
                is_word = before == [start - 1] or after == [end]
                while end < len(self._text) and not (self._text[end].isalnum() or self._text[end].isspace()):
                    end += 1
                if not (is_word or any(marked[start:end])):
                    marked[start:end] = b"1" * (end - start)
                    yield key, start, end
                at = letters.find(key, at + len(key))

    def runs(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of the HTML between tags that have the letters of a part of the text."""
        while start < end:
            stop = start + 1
            while stop < end and self._places[stop][0] == self._places[stop - 1][1]:
                stop += 1
            if any(map(str.isalnum, self._text[start:stop])):
                yield self._places[start][0], self._places[stop - 1][1]
            start = stop

    def place_after(self, end: int) -> int:
        """Return the place in the HTML behind a part of the text and the punctuation and citations that follow."""
        place = self._places[end - 1][1]
        while following := _AFTER.match(self._markup, place):
            place = following.end()
        return place
