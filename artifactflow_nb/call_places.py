"""Where things stand in a text: tags with their partners, ends of CDATA, beginnings of calls.

Each table is made in one pass when it is first asked for, and looked up after that: so reading a text takes time in
proportion to its length, whatever it holds.
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
"""What matters outside of calls: beginnings of calls in the forms that are read, and of what is not one's prose."""
_CDATA_CLOSING = re.compile(r"\]\]>\s*+</([A-Za-z_][\w.:-]*+)\s*+>")
_SECTION_END = re.compile(r"\]\]>(?!<!\[CDATA\[)")

Span = tuple[int, int]
"""Where something begins and ends."""


def plain(tag: str) -> str:
    """A tag's name as it is compared: without case and namespace, `toolcall` as `tool_call`."""
    bare = tag.rpartition(":")[2].lower()
    return "tool_call" if bare in {"toolcall", "tool-call"} else bare


class Places:
    """The tables of one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def partner(self, opened: int) -> Span | None:
        """The closing tag that belongs to the tag which ends at `opened`, nested ones of the same name counted."""
        return self._tags[1].get(opened)

    def closing(self, tags: Iterable[str], start: int) -> Span | None:
        """The first closing tag of these from `start` on."""
        found = [place for tag in tags if (place := _first(self._tags[0].get(tag), start))]
        return min(found) if found else None

    def section_end(self, start: int) -> int | None:
        """The first `]]>` from `start` on that no further section follows at once."""
        index = bisect_left(self._section_ends, start)
        return self._section_ends[index] if index < len(self._section_ends) else None

    def cdata_closing(self, tag: str, start: int) -> Span | None:
        """The first `]]>` from `start` on that `</tag>` follows: where it begins and where the tag ends."""
        return _first(self._cdata_closings.get(plain(tag)), start)

    def next_call(self, start: int) -> int | None:
        """Where the next call begins."""
        index = bisect_left(self._calls, start)
        return self._calls[index] if index < len(self._calls) else None

    @cached_property
    def _tags(self) -> tuple[dict[str, list[Span]], dict[int, Span]]:
        """The closing tags by name, and the partners of the opening tags by where those end."""
        closings: dict[str, list[Span]] = {}
        partners: dict[int, Span] = {}
        opened: dict[str, list[int]] = {}
        for match in TAG.finditer(self.text):
            tag = plain(match["tag"])
            if match["close"]:
                closings.setdefault(tag, []).append(match.span())
                if waiting := opened.get(tag):
                    partners[waiting.pop()] = match.span()
            elif not is_empty(match):
                opened.setdefault(tag, []).append(match.end())
        return closings, partners

    @cached_property
    def _cdata_closings(self) -> dict[str, list[Span]]:
        found: dict[str, list[Span]] = {}
        for match in _CDATA_CLOSING.finditer(self.text):
            found.setdefault(plain(match[1]), []).append(match.span())
        return found

    @cached_property
    def _section_ends(self) -> list[int]:
        ends = [match.start() for match in _SECTION_END.finditer(self.text)]
        if ends and CDATA_OPEN.startswith(self.text[ends[-1] + len(CDATA_CLOSE) :]):
            ends.pop()  # the text is cut here: a further section may have followed
        return ends

    @cached_property
    def _calls(self) -> list[int]:
        begins = (match for match in CALL.finditer(self.text) if match.lastgroup in {"call", "function", "invoke"})
        return [match.start() for match in begins]


def is_empty(tag: re.Match[str]) -> bool:
    """Whether a tag closes itself."""
    return bool(tag["empty"]) or (tag["attributes"] or "").endswith("/")


def _first(places: list[Span] | None, start: int) -> Span | None:
    index = bisect_left(places, (start, 0)) if places else 0
    return places[index] if places and index < len(places) else None
