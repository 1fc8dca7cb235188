"""The sentences of a text that can be quoted.

Only whole sentences of prose and of list items count: no headings, code, tables or grammar. A lead-in that ends in a
colon is one if it is long enough to say something. A quote is the text's own characters with each run of white space,
line breaks included, shown as one space.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from artifactflow_nb.text.blocks import ITEM_MARK, Block, blocks
from artifactflow_nb.text.chinese import CJK
from artifactflow_nb.text.chinese import CJK_RUN as CHINESE

_LABEL = re.compile(
    r"\s*(?:(?:Note|Tip|Hint|Warning|Important"
    r"|(?:Changed|New|Added|Deprecated|Removed)[^.:]{0,30} version [\d.]+):|\[\d+\])\s+"
    r"|\s*(?:注意?|提示|警告|重要|說明|说明)[:：]\s*"
)
_END = re.compile(
    r"[.!?]+[\"'”’)\]*_`]*(?=\s|$)"
    r"|(?:[。！？｡]+|[…⋯]{1,2}(?![…⋯，、；：,。！？])|；)[”’」』）》】〕〉*_`]*"
)
_FULL, _CLAUSE, _TRAILING = "。！？｡", "；", "…⋯"
_NEXT = re.compile(r"\s*[\"'“‘(\[*_`]*[^\W_a-z]|\s+(?:[\"“‘`]|\*\w)|\s*$")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|Dr|Mr|Mrs|Ms|Prof|St|No|Nr|Fig|Sec|Vol|approx|ca|resp|incl|al|Inc|Ltd|Jr|Sr|[A-Z])\.)$"
)
_WORD = re.compile(rf"[{CJK}]|[^\W\d_{CJK}]{{2,}}")
_FOOTNOTE = re.compile(r"\s*\[\d+\](?=\s+\S)")
_MIN_WORDS, _MIN_LEAD_IN = 4, 7
_MIN_LETTERS = 0.6
_MIN_CLAUSE = 16  # characters of a clause that a Chinese semicolon ends and that can stand alone
_LISTED = re.compile(rf"[，、：；][^，、：；]*[{CJK}]")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text.

    Attributes:
        start: Its first character's offset in the text.
        end: The offset after its last character.
        quote: It, with white space collapsed.
        block: The start of the paragraph or list item that it stands in.
        label: What its paragraph begins with and a quote leaves out: `Note:`; empty if it has none.
    """

    start: int
    end: int
    quote: str
    block: int = 0
    label: str = ""


def collapse(text: str) -> str:
    """The text with every run of white space as one space: what quotes are compared in."""
    return " ".join(text.split())


def sentences(text: str) -> list[Sentence]:
    """The quotable sentences of the text, in order."""
    return sentences_of(text, blocks(text))


def sentences_of(text: str, found: Iterable[Block]) -> list[Sentence]:
    """The quotable sentences of these blocks of the text, in order."""
    return [sentence for block in found if block.kind in {"prose", "item"} for sentence in _of(text, block)]


def _of(text: str, block: Block) -> Iterator[Sentence]:
    start, label = block.start, ""
    for mark in (ITEM_MARK, _LABEL):
        if match := mark.match(text, start, block.end):
            start, label = match.end(), match[0].strip()
    for end in _ends(text, start, block):
        if footnote := _FOOTNOTE.match(text, start, end):  # the mark of the sentence before
            start = footnote.end()
        quote = collapse(text[start:end])
        if _is_sentence(quote):
            begin = start + len(text[start:end]) - len(text[start:end].lstrip())
            yield Sentence(begin, end, quote, block.start, label)
        start = end


def _ends(text: str, start: int, block: Block) -> Iterator[int]:
    """Where sentences end; the last one of a Chinese list item needs no full stop."""
    stop, last = block.end, start
    for match in _END.finditer(text, start, stop):
        end = _after_quotation(text, last, match.end(), stop)
        if _ends_sentence(text, match, last, stop):
            yield end
            last = end
    rest = text[last:stop].rstrip()
    if rest.endswith((":", "：")) or (last < stop and _ends_without_a_stop(rest, block)):
        yield stop


def _ends_sentence(text: str, match: re.Match[str], last: int, stop: int) -> bool:
    mark = match[0][0]
    if mark in _FULL:
        return True
    if mark in _CLAUSE:
        return min(match.end() - last, len(text[match.end() : stop].partition("。")[0])) >= _MIN_CLAUSE
    if mark in _TRAILING:
        return match.start() > last and CHINESE.match(text, match.start() - 1) is not None
    shortened = _ABBREVIATION.search(text, last, match.start() + 1)
    return not shortened and _NEXT.match(text, match.end(), stop) is not None


def _after_quotation(text: str, last: int, end: int, stop: int) -> int:
    """The end, with the straight quotation mark that closes a Chinese quotation: `他说:"好。"`."""
    closes = text[end - 1] in _FULL and end < stop and text[end] == '"' and text.count('"', last, end) % 2
    return end + 1 if closes else end


def _ends_without_a_stop(rest: str, block: Block) -> bool:
    """Whether a stretch that nothing ends is a Chinese sentence: any of a list, or one with a comma."""
    return _is_chinese(rest) and (block.kind == "item" or _LISTED.search(rest) is not None)


def _is_chinese(text: str) -> bool:
    return 2 * sum(map(len, CHINESE.findall(text))) > len(text)


def _is_sentence(quote: str) -> bool:
    letters = sum(_columns(character) for character in quote if character.isalpha() or character.isspace())
    return (
        len(_WORD.findall(quote)) >= (_MIN_LEAD_IN if quote.endswith((":", "：")) else _MIN_WORDS)
        and letters >= _MIN_LETTERS * sum(map(_columns, quote))
        and "::=" not in quote
        and (not quote[0].islower() or _is_chinese(quote))
    )


def _columns(character: str) -> int:
    """A Chinese character says as much as several letters."""
    return 3 if CHINESE.match(character) else 1
