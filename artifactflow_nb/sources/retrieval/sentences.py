"""Splitting of texts into quotable sentences.

Quotable are complete sentences of prose, list items, rows of tables, options with their text, and entries of a
docstring's parameter list or of a two-column list, but not headings, tables of contents, code and grammar. A lead-in
that ends in a colon is quotable if the lead-in is long enough. A quote is verbatim, except that each run of white
space, including line breaks, becomes one space.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from artifactflow_nb.core.text.chinese import CJK
from artifactflow_nb.core.text.chinese import CJK_RUN as CHINESE
from artifactflow_nb.sources.retrieval.passages import HANGING, ITEM_MARK, TextBlock, split_blocks

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
_TOKEN = re.compile(rf"[{CJK}]|[^\W{CJK}]+")
_FOOTNOTE = re.compile(r"\s*\[\d+\](?=\s+\S)")
_MIN_WORDS, _MIN_TOKENS, _MIN_LEAD_IN = 2, 3, 7
_MIN_LETTERS = 0.6
_MIN_CLAUSE = 16  # characters of a clause that a Chinese semicolon ends and that can stand alone
_PARAMETER = re.compile(
    r"^[ \t]*(?:[-*][ \t]+)?(?P<name>[*`'\"]{0,2}[A-Za-z_]\w*[*`'\"]{0,2}(?:[ \t]?\([^)\n]*\))?)"
    r"(?:(?:[ \t]+--|:)[ \t]+(?=\S)|[ \t]:[ \t]+\S[^\n]*\n[ \t]+(?=\S))",
    re.MULTILINE,
)
_ALIGNED = re.compile(r"^[ \t]*(?P<name>\S+(?: \S+)?)(?:[ \t]{2,}|\t)\S", re.MULTILINE)
_ROW = re.compile(r"^[ \t]*\|?[ \t]*([^\n|]*\w[^\n]*?)[ \t|]*$", re.MULTILINE)
_GRID_LINE = re.compile(r"^[ \t]*[+|][-=+|]+[ \t]*$", re.MULTILINE)  # above and below each row of a grid
_CELLS = re.compile(r"[^|\s](?:.*[^|\s])?", re.DOTALL)  # without the frame at both ends
_CODE_FIRST = re.compile(r"[a-z]\w*(?:_\w|\.\w\w|\()")  # a name of code may begin a sentence
_MIN_PARAMETERS = 2  # a single line of this form may be a remark
_MIN_ALIGNED, _MIN_ALIGNED_SHARE = 3, 0.5  # lines in two columns, and their share of a list: the rest are wrapped lines
_NAMED = re.compile(r"\s*[\w.+:-]+(?:, [\w.+:-]+)* (?:-|–|—) \S")  # `df - report file system space usage`
# These are no answers: a table of contents, a link alone, a rule, a synopsis, the note of an omission, an imprint.
_NO_ANSWER = re.compile(
    r"\.{4,}|(?: \.){4,}|^\[[^\]]*\]\([^)]*\)$|[─═]{4,}|\]\.\.\.|characters left out \.\.\."
    r"|(?i:all rights reserved|©|copyright \(c\)|^printed (?:on|in|by)\b)"
)
_PLAIN_ROWS = re.compile(r"[^\n\d]+(?:\n(?=[^\n]*\d)[^\n]{1,80}[^\s.:;,!?]){2,}")  # of a PDF: a row has figures
_LISTED = re.compile(rf"[，、：；][^，、：；]*[{CJK}]")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text.

    Attributes:
        start: Offset of the first character in the text.
        end: Offset after the last character.
        quote: The text of the sentence with white space collapsed.
        block: Offset of the paragraph or list item of the sentence.
        label: The label of the paragraph, which a quote omits: `Note:`; or an empty string.
    """

    start: int
    end: int
    quote: str
    block: int = 0
    label: str = ""


def collapse_whitespace(text: str) -> str:
    """Replace each run of white space by one space; quotes are compared in this form."""
    return " ".join(text.split())


def split_sentences(text: str) -> list[Sentence]:
    """Return the quotable sentences of a text, in order."""
    return sentences_in_blocks(text, split_blocks(text))


def sentences_in_blocks(text: str, blocks: Iterable[TextBlock]) -> list[Sentence]:
    """Return the quotable sentences of some blocks of a text, in order."""
    sentences = []
    for block in blocks:
        if entries := _entries(text, block):
            for start, end in entries:
                quote = collapse_whitespace(text[start:end])
                if _is_long(quote):
                    sentences.append(Sentence(start, end, quote, start))
            continue
        if block.kind not in {"prose", "item"}:
            continue
        start, label = block.start, ""
        for mark in (ITEM_MARK, _LABEL):
            if match := mark.match(text, start, block.end):
                start, label = match.end(), match[0].strip()
        is_entry = block.kind == "item" or any(
            pattern(text, block.start, block.end) for pattern in (HANGING.fullmatch, _NAMED.match)
        )
        for end in _ends(text, start, block, is_entry=is_entry):
            if footnote := _FOOTNOTE.match(text, start, end):  # the mark of the sentence before
                start = footnote.end()
            quote = collapse_whitespace(text[start:end])
            letters = _columns("".join(character for character in quote if character.isalpha() or character.isspace()))
            is_lead_in = quote.endswith((":", "："))
            if (
                (len(_WORD.findall(quote)) >= _MIN_LEAD_IN if is_lead_in else _is_long(quote))
                and letters >= _MIN_LETTERS * _columns(quote)
                and "::=" not in quote
                and (is_entry or not quote[0].islower() or _CODE_FIRST.match(quote) or _is_chinese(quote))
            ):
                begin = start + len(text[start:end]) - len(text[start:end].lstrip())
                sentences.append(Sentence(begin, end, quote, block.start, label))
            start = end
    return sentences


def _is_long(quote: str) -> bool:
    """Return whether a quote is informative: it has three words, figures included, and leads to no other page."""
    return (
        len(_WORD.findall(quote)) >= _MIN_WORDS
        and len(_TOKEN.findall(quote)) >= _MIN_TOKENS
        and not _NO_ANSWER.search(quote)
    )


def _entries(text: str, block: TextBlock) -> list[tuple[int, int]]:
    """Return start and end of the rows of a table or the entries of a parameter list, or an empty list."""
    if block.kind == "table" and text[block.start : block.end].lstrip().startswith(("|", "+")):
        lines = list(_GRID_LINE.finditer(text, block.start, block.end))
        rows = [match.span(1) for match in _ROW.finditer(text, block.start, block.end)]
        if text.startswith("+", block.start + block.indent):  # a cell may have several lines
            between = (_CELLS.search(text, above.end(), below.start()) for above, below in pairwise(lines))
            rows = [match.span() for match in between if match]
        return rows[1:]  # the first row names the columns
    if block.kind not in {"prose", "item"}:
        return []
    if _PLAIN_ROWS.fullmatch(text, block.start, block.end):
        return [match.span(1) for match in _ROW.finditer(text, block.start, block.end)][1:]
    aligned = list(_ALIGNED.finditer(text, block.start, block.end))
    n_lines = 1 + text.count("\n", block.start, block.end)
    # The second column of a list begins at one place, or after a tab. Gaps in justified text begin anywhere.
    columns = Counter("\t" if "\t" in match[0] else len(match[0]) for match in aligned)
    if max(columns.values(), default=0) >= max(_MIN_ALIGNED, _MIN_ALIGNED_SHARE * n_lines):
        return _up_to_next(aligned, block)
    names = list(_PARAMETER.finditer(text, block.start, block.end))
    is_dashed = bool(names) and "--" in names[0][0] and not text[block.start : names[0].start()].strip()
    if len(names) < _MIN_PARAMETERS and not is_dashed:
        return []
    return _up_to_next(names, block)


def _up_to_next(names: Sequence["re.Match[str]"], block: TextBlock) -> list[tuple[int, int]]:
    """Return the offsets of the entries of a block: each from its name to the next entry."""
    ends = [*(match.start() for match in names[1:]), block.end]
    return [(match.start("name"), end) for match, end in zip(names, ends, strict=True)]


def _ends(text: str, start: int, block: TextBlock, *, is_entry: bool) -> Iterator[int]:
    """Yield the ends of the sentences. An entry, or a Chinese stretch with a comma, needs no full stop."""
    stop, last = block.end, start
    for match in _END.finditer(text, start, stop):
        end = match.end()
        if not _ends_sentence(text, match, last, stop):
            continue
        # The straight quotation mark that closes a Chinese quotation belongs to the sentence: `他说:"好。"`.
        if text[end - 1] in _FULL and end < stop and text[end] == '"' and text.count('"', last, end) % 2:
            end += 1
        yield end
        last = end
    rest = text[last:stop].rstrip()
    if last < stop and (is_entry or rest.endswith((":", "：")) or (_is_chinese(rest) and _LISTED.search(rest))):
        yield stop


def _ends_sentence(text: str, match: re.Match[str], last: int, stop: int) -> bool:
    """Return whether a punctuation mark ends the sentence that began at the offset `last`, before `stop`."""
    mark = match[0][0]
    if mark in _FULL:
        return True
    if mark in _CLAUSE:
        return min(match.end() - last, len(text[match.end() : stop].partition("。")[0])) >= _MIN_CLAUSE
    if mark in _TRAILING:
        return match.start() > last and CHINESE.match(text, match.start() - 1) is not None
    shortened = _ABBREVIATION.search(text, last, match.start() + 1)
    return not shortened and _NEXT.match(text, match.end(), stop) is not None


def _is_chinese(text: str) -> bool:
    return 2 * sum(map(len, CHINESE.findall(text))) > len(text)


def _columns(text: str) -> int:
    """Return the weight of a text: a Chinese character counts as several letters."""
    return len(text) + 2 * sum(map(len, CHINESE.findall(text)))
