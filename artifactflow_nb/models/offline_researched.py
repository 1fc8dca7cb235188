"""What the offline model reads of research in the texts of blocks: reports, and the lists of what was read for them.

A report of a language model cites by number, as `[1]`, and says at its end what that is. There the numbers mean
something; a sentence that is quoted from it leaves them behind, and the list is not quoted.
"""

import re
from dataclasses import dataclass

from artifactflow_nb.models.offline_block_words import BLOCK_PHRASES, UNUSED
from artifactflow_nb.models.offline_report import PHRASES
from artifactflow_nb.text.source_list import NONE_READ, read_sources

_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(\S.*)$|^\*\*([^*\n]+)\*\*:?$")
_TITLE = re.compile(r"\A\s*#{1,6}\s+(\S.*)$", re.MULTILINE)
_OF_SOURCES = re.compile(
    r"(?:\d+[.)]? )?(?:(?:list of )?sources?|references?|bibliography|works cited|literature|further reading|footnotes)"
    r"(?: (?:cited|read|used))?|(?:资料|資料|信息)?[来來]源|(?:参考|參考)(?:文献|文獻|资料|資料|来源)?|引用",
    re.IGNORECASE,
)
_CITED = re.compile(r"\[(\d{1,3}(?:\s*[,;，、–-]\s*\d{1,3})*)\]")
_ENTRY = re.compile(r"^\s*(?:[-*+] )?(?:\[\^?(\d{1,3})\]:?|(\d{1,3})[.)])\s+\S")
_PARAGRAPHS = re.compile(r"\n\s*\n")
_MARK = re.compile(rf" ?{_CITED.pattern}")
_DIGITS = re.compile(r"\d+")
_BREAK = re.compile(r"(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,}")
_CODE = re.compile(r"(`[^`\n]*`)")


def _template(phrase: str) -> str:
    """A pattern for a phrase with anything in its places."""
    return ".*".join(map(re.escape, re.split(r"\{\w+\}", phrase)))


_TOLD = ("searched", "searched_none", "absent", "unread", "problem", "unwritten", "in_report", "offline")
_OWN = re.compile("|".join(_template(say[name]) for say in PHRASES.values() for name in _TOLD), re.DOTALL)
_MARKS = (
    *(say["offline"] for say in PHRASES.values()),
    *(f"**{say['sources']}** ({say['quoted_read']})" for say in BLOCK_PHRASES.values()),
)


@dataclass(frozen=True, slots=True)
class Part:
    """A paragraph of a text.

    Attributes:
        text: As it stands there.
        said: Without the numbers that refer to sources.
        is_listed: Whether it belongs to the list of the sources.
    """

    text: str
    said: str
    is_listed: bool


def is_report(content: str) -> bool:
    """Whether a text came of research: a run wrote it, or it was written anew from what such a run had read."""
    if any(mark in content for mark in _MARKS):
        return True
    return not any(words in content for words in UNUSED) and bool(_numbers(content, _paragraphs(content)))


def is_own_word(paragraph: str) -> bool:
    """Whether a paragraph of a report is what the model says of its work."""
    return _OWN.fullmatch(paragraph) is not None


def is_source_list(content: str) -> bool:
    """Whether a text lists what was read for a report."""
    return content.strip() == NONE_READ or bool(read_sources(content))


def title_of(content: str) -> str:
    """The heading that a text begins with: of a report what was asked; empty if it begins with none."""
    found = _TITLE.search(content)
    return found[1].rstrip("# ") if found else ""


def parts_of(content: str) -> list[Part]:
    """The paragraphs of a text; what numbers mean is told by the list of sources in it."""
    read = _paragraphs(content)
    numbers = _numbers(content, read)
    return [Part(text, _without(text, numbers), is_listed) for text, is_listed in read]


def _paragraphs(content: str) -> list[tuple[str, bool]]:
    """The paragraphs, each with whether it belongs to the list of sources: by its heading, or as it is cited."""
    cited, is_below, read = _cited(content), False, []
    for text in map(str.strip, _PARAGRAPHS.split(content)):
        first, _, rest = text.partition("\n")
        heading = _HEADING.match(first)
        if heading:
            is_below = _OF_SOURCES.fullmatch((heading[1] or heading[2]).strip("# :：")) is not None
        elif _BREAK.fullmatch(first):
            is_below = False
        lines = (rest if heading else text).splitlines()
        read.append((text, is_below or (bool(lines) and all(_number(line) in cited for line in lines))))
    return read


def _numbers(content: str, read: list[tuple[str, bool]]) -> frozenset[str]:
    """The numbers that refer to sources: those that are cited and listed, all that are cited if the list has none."""
    cited = _cited(content)
    listed = {_number(line) for text, is_listed in read if is_listed for line in text.splitlines()}
    return cited.intersection(listed) if listed - {""} else cited if listed else frozenset()


def _number(line: str) -> str:
    """The number of the source that a line tells; empty if it tells none."""
    found = _ENTRY.match(line)
    return (found[1] or found[2]) if found else ""


def _cited(content: str) -> frozenset[str]:
    """The numbers in square brackets that do not begin a line."""
    marks = (mark for line in content.splitlines() for mark in _CITED.findall(_ENTRY.sub("", line)))
    return frozenset(number for mark in marks for number in _DIGITS.findall(mark))


def _without(text: str, numbers: frozenset[str]) -> str:
    """A text without the marks that refer to these numbers, except in code."""

    def kept(mark: re.Match[str]) -> str:
        return "" if numbers.issuperset(_DIGITS.findall(mark[0])) else mark[0]

    return "".join(part if n % 2 else _MARK.sub(kept, part) for n, part in enumerate(_CODE.split(text)))
