"""Index of the tags, special tokens and call starts of a text.

Each table is built lazily in one pass, so that parsing is linear in the length of the text for any input.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property

from artifactflow_nb.core.toolcalls.marks import DSML, TOKEN, UNMARKED

CDATA_OPEN = "<![CDATA["
CDATA_CLOSE = "]]>"
CDATA_OPENING = re.compile(r"\s*+<!\[CDATA\[")
TAG = re.compile(
    rf"<(?P<close>/?){DSML}(?P<tag>[A-Za-z_][\w.:-]*+)(?:=(?P<key>[^<>\s/]*+)|(?P<attributes>\s[^<>]*+))?\s*+(?P<empty>/?)>"
    rf"|{TOKEN}"
)
"""A tag: `<p>`, `</p>`, `<p a="b">`, `<parameter=key>`, `<p/>`; or a special token."""
_WRAPPER = rf"{DSML}(?:[\w-]++:)?+(?:tool[_-]?calls?|function_calls?)"
CALL = re.compile(
    rf"""(?P<call><{_WRAPPER}\b[^<>＞]*+>)
    | (?P<function><function=[^<>\s/]++\s*+>)
    | (?P<invoke><{DSML}(?:[\w-]++:)?+invoke\s(?=[^<>]*+>)[^<>]*?\bname\s*+=[^<>]*+>)
    | (?P<name><name>(?=[^<>]*+</name>\s*+<params>))
    | (?P<result><(?:tool_results?|tool_response|function_results)\b[^<>]*+>)
    | (?P<think><think>)
    | (?P<rest></(?:{_WRAPPER}|{DSML}(?:[\w-]++:)?+(?:params|parameters|arguments|function|invoke))\s*+>|</\w*+\Z)
    | (?P<foreign>[<＜]/?tool_call[^<>＜＞\n]*+＞|<[|｜]tool[^<>\n]*+\Z)
    | (?P<token>{TOKEN})
    | (?P<unmarked>{UNMARKED})
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Markup outside of calls: starts of calls in all forms, leftover ends, and starts of results and reasoning."""

TextRange = tuple[int, int]
"""Start and end offset."""


def normalize_tag(tag: str) -> str:
    """Normalise a tag name for comparison: lower case, no namespace, `toolcall` as `tool_call`."""
    bare = tag.rpartition(":")[2].lower()
    return "tool_call" if bare in {"toolcall", "tool-call"} else bare


def tag_kind(tag: re.Match[str]) -> str:
    """Return the normalised name of a match of `TAG`; a token has the name of our tag with the same meaning."""
    if tag["tag"]:
        return normalize_tag(tag["tag"])
    return "" if tag.lastgroup is None else "tool_call"


def is_closing(tag: re.Match[str]) -> bool:
    """Return whether a match of `TAG` is a closing tag or token."""
    return bool(tag["close"] or tag["closing"] or tag["end"])


class TagIndex:
    """Lookup tables of one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def partner(self, opened: int) -> TextRange | None:
        """Return the closing tag of the tag that ends at `opened`, with nesting taken into account."""
        return self._tags[1].get(opened)

    def closing(self, tags: Iterable[str], start: int) -> TextRange | None:
        """Return the first closing tag with one of these names from `start` on."""
        ranges = []
        for tag in tags:
            places = self._tags[0].get(tag, [])
            index = bisect_left(places, (start, 0))
            ranges += places[index : index + 1]
        return min(ranges) if ranges else None

    def next_call(self, start: int) -> int | None:
        """Return the offset of the first call at or after `start`, or None."""
        index = bisect_left(self._calls, start)
        return self._calls[index] if index < len(self._calls) else None

    @cached_property
    def _tags(self) -> tuple[dict[str, list[TextRange]], dict[int, TextRange]]:
        """Closing tags by name, and the closing tag of each opening tag by the end of the opening tag."""
        closings: dict[str, list[TextRange]] = {}
        partners: dict[int, TextRange] = {}
        opened: dict[str, list[int]] = {}
        for match in TAG.finditer(self.text):
            tag = tag_kind(match)
            if is_closing(match):
                closings.setdefault(tag, []).append(match.span())
                if stack := opened.get(tag):
                    partners[stack.pop()] = match.span()
            elif not is_self_closing(match):
                opened.setdefault(tag, []).append(match.end())
        return closings, partners

    @cached_property
    def _calls(self) -> list[int]:
        return [match.start() for match in CALL.finditer(self.text) if begins_call(match)]


def begins_call(mark: re.Match[str]) -> bool:
    """Return whether a match of `CALL` begins a call."""
    is_opening = mark.lastgroup in {"call", "function", "invoke", "unmarked"}
    return is_opening or bool(mark["opening"] or mark["bracket"])


def is_self_closing(tag: re.Match[str]) -> bool:
    """Return whether a tag is self-closing."""
    return bool(tag["empty"]) or (tag["attributes"] or "").endswith("/")
