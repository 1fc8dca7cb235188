"""Index of the tags, CDATA ends and call starts of a text.

Each table is built lazily in one pass, so that parsing is linear in the length of the text for any input.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property

CDATA_OPEN = "<![CDATA["
CDATA_CLOSE = "]]>"
CDATA_OPENING = re.compile(r"\s*+<!\[CDATA\[")
TAG = re.compile(
    r"<(?P<close>/?)(?P<tag>[A-Za-z_][\w.:-]*+)(?:=(?P<key>[^<>\s/]*+)|(?P<attributes>\s[^<>]*+))?\s*+(?P<empty>/?)>"
)
"""A tag: `<p>`, `</p>`, `<p a="b">`, `<parameter=key>`, `<p/>`."""
CALL = re.compile(
    r"""[<＜](?:
      (?P<call>(?:[\w-]++:)?+(?:tool[_-]?call|function_call)\b[^<>＞]*+>)
    | (?P<function>function=[^<>\s/]++\s*+>)
    | (?P<invoke>(?:[\w-]++:)?+invoke\s(?=[^<>]*+>)[^<>]*?\bname\s*+=[^<>]*+>)
    | (?P<name>name>(?=[^<>]*+</name>\s*+<params>))
    | (?P<list>(?:tool_calls|function_calls)\b[^<>]*+>(?=\s*+[\[{]))
    | (?P<result>(?:tool_results?|tool_response|function_results)\b[^<>]*+>)
    | (?P<think>think>)
    | (?P<foreign>[|｜]tool[^<>\n]*+>|/?tool_call[^<>＜＞\n]*+＞)
    )""",
    re.VERBOSE | re.IGNORECASE,
)
"""Markup outside of calls: starts of calls in all formats, and of results and reasoning."""
_CDATA_CLOSING = re.compile(r"\]\]>\s*+</([A-Za-z_][\w.:-]*+)\s*+>")
_SECTION_END = re.compile(r"\]\]>(?!<!\[CDATA\[)")

TextRange = tuple[int, int]
"""Start and end offset."""


def normalize_tag(tag: str) -> str:
    """Normalise a tag name for comparison: lower case, no namespace, `toolcall` as `tool_call`."""
    bare = tag.rpartition(":")[2].lower()
    return "tool_call" if bare in {"toolcall", "tool-call"} else bare


class TagIndex:
    """Lookup tables of one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def partner(self, opened: int) -> TextRange | None:
        """Return the closing tag of the tag that ends at `opened`, with nesting taken into account."""
        return self._tags[1].get(opened)

    def closing(self, tags: Iterable[str], start: int) -> TextRange | None:
        """Return the first closing tag with one of these names from `start` on."""
        ranges = [closing for tag in tags if (closing := _first(self._tags[0].get(tag), start))]
        return min(ranges) if ranges else None

    def section_end(self, start: int) -> int | None:
        """Return the first `]]>` from `start` on that is not directly followed by another section."""
        ends = self._sections[0]
        index = bisect_left(ends, start)
        return ends[index] if index < len(ends) else None

    def cdata_closing(self, tag: str, start: int) -> TextRange | None:
        """Return the first `]]>` from `start` on with `</tag>` after it, as the range of both."""
        return _first(self._sections[1].get(normalize_tag(tag)), start)

    def next_call(self, start: int) -> int | None:
        """Return the offset of the first call at or after `start`; None if there is none."""
        index = bisect_left(self._calls, start)
        return self._calls[index] if index < len(self._calls) else None

    @cached_property
    def _tags(self) -> tuple[dict[str, list[TextRange]], dict[int, TextRange]]:
        """Closing tags by name, and for each opening tag, by its end, its closing tag."""
        closings: dict[str, list[TextRange]] = {}
        partners: dict[int, TextRange] = {}
        opened: dict[str, list[int]] = {}
        for match in TAG.finditer(self.text):
            tag = normalize_tag(match["tag"])
            if match["close"]:
                closings.setdefault(tag, []).append(match.span())
                if stack := opened.get(tag):
                    partners[stack.pop()] = match.span()
            elif not is_self_closing(match):
                opened.setdefault(tag, []).append(match.end())
        return closings, partners

    @cached_property
    def _sections(self) -> tuple[list[int], dict[str, list[TextRange]]]:
        """Ends of CDATA sections, and by the name of a closing tag the ranges of `]]>` and the tag."""
        ends = [match.start() for match in _SECTION_END.finditer(self.text)]
        if ends and CDATA_OPEN.startswith(self.text[ends[-1] + len(CDATA_CLOSE) :]):
            ends.pop()  # the text is truncated here, so another section may have followed
        closings: dict[str, list[TextRange]] = {}
        for match in _CDATA_CLOSING.finditer(self.text):
            closings.setdefault(normalize_tag(match[1]), []).append(match.span())
        return ends, closings

    @cached_property
    def _calls(self) -> list[int]:
        kinds = {"call", "function", "invoke"}
        return [match.start() for match in CALL.finditer(self.text) if match.lastgroup in kinds]


def is_self_closing(tag: re.Match[str]) -> bool:
    """Return whether a tag is self-closing."""
    return bool(tag["empty"]) or (tag["attributes"] or "").endswith("/")


def _first(places: list[TextRange] | None, start: int) -> TextRange | None:
    index = bisect_left(places, (start, 0)) if places else 0
    return places[index] if places and index < len(places) else None
