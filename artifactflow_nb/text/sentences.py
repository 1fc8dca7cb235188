"""The sentences of a text that can be quoted.

Only whole sentences of prose and of list items count: no headings, code, tables or grammar. A lead-in that ends in a
colon is one if it is long enough to say something. A quote is the text's own characters with each run of white space,
line breaks included, shown as one space.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from artifactflow_nb.text.blocks import Block, blocks
from artifactflow_nb.text.words import CJK

_ITEM_MARK = re.compile(r"\s*(?:[-*+•]|\(?\d{1,3}[.)])\s+")
_LABEL = re.compile(
    r"\s*(?:(?:Note|Tip|Hint|Warning|Important"
    r"|(?:Changed|New|Added|Deprecated|Removed)[^.:]{0,30} version [\d.]+):|\[\d+\])\s+"
)
_END = re.compile(r"[.!?]+[\"'”’)\]*_`]*(?=\s|$)|[。！？]+[”’」』）]*")
_NEXT = re.compile(r"\s*[\"'“‘(\[*_`]*[^\W_a-z]|\s+(?:[\"“‘`]|\*\w)|\s*$")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|Dr|Mr|Mrs|Ms|Prof|St|No|Nr|Fig|Sec|Vol|approx|ca|resp|incl|al|Inc|Ltd|Jr|Sr|[A-Z])\.)$"
)
_WORD = re.compile(rf"[{CJK}]|[^\W\d_{CJK}]{{2,}}")
_FOOTNOTE = re.compile(r"\s*\[\d+\](?=\s+\S)")
_MIN_WORDS, _MIN_LEAD_IN = 4, 7
_MIN_LETTERS = 0.6


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
    for mark in (_ITEM_MARK, _LABEL):
        if match := mark.match(text, start, block.end):
            start, label = match.end(), match[0].strip()
    for end in _ends(text, start, block.end):
        if footnote := _FOOTNOTE.match(text, start, end):  # the mark of the sentence before
            start = footnote.end()
        quote = collapse(text[start:end])
        if _is_sentence(quote):
            begin = start + len(text[start:end]) - len(text[start:end].lstrip())
            yield Sentence(begin, end, quote, block.start, label)
        start = end


def _ends(text: str, start: int, stop: int) -> Iterator[int]:
    for match in _END.finditer(text, start, stop):
        shortened = _ABBREVIATION.search(text, start, match.start() + 1)
        if match[0][0] in "。！？" or (not shortened and _NEXT.match(text, match.end(), stop)):
            yield match.end()
    if text[start:stop].rstrip().endswith((":", "：")):
        yield stop


def _is_sentence(quote: str) -> bool:
    letters = sum(character.isalpha() or character.isspace() for character in quote)
    return (
        len(_WORD.findall(quote)) >= (_MIN_LEAD_IN if quote.endswith((":", "：")) else _MIN_WORDS)
        and letters >= _MIN_LETTERS * len(quote)
        and "::=" not in quote
        and not quote[0].islower()
    )
