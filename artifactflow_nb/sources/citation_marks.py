"""Citation marks `[1]`: their numbers in a report, and their rendering.

A mark cites an entry of the numbered list of sources at the end of a report: the mark shows the passage on hover, focus
or tap, and links the source. The HTML needs no script and works in a saved notebook, too; the mark of a source that
the run has not read is dotted, and its passage says so. A sanitiser that removes the attributes leaves `[1]`:

::

    <span class="af-cite">
      <span class="af-cite-mark" tabindex="0" role="button" aria-label="[1] Storage: Backups">[1]</span>
      <span class="af-passage" hidden> title, quoted words, link to the source </span>
    </span>

A model writes the numbers of its citations itself, and a report that combines the findings of several agents often
lists an address twice, under two numbers.
"""

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any

from artifactflow_nb.core.language import EnglishText, translate
from artifactflow_nb.core.text.format import clip, translate_count
from artifactflow_nb.core.text.formulas import formula_at
from artifactflow_nb.core.text.markdown import escape
from artifactflow_nb.sources.retrieval.sentences import split_sentences
from artifactflow_nb.sources.values import NO_MARKS, Evidence

ENTRY = re.compile(
    r"^[ ]{0,3}(?:[-*|>][ ]+)?[*_]{0,2}[\[(]?(\d{1,3})"
    r"(?:\\?[\].)]+[*_]{0,2}:?[*_]{0,2}[ ]+|\]?[ ]+\|[ ]+|[\]、．](?![(\[]))"
    r"(.{0,300}?)(?:[\s—–:|(<\]，：（*-]|\b(?:URL|DOI|Link|Address|Available at|网址|链接)[:：]){0,60}"
    r"((?:local:|https?://)[^\s<>\"'`]+)",
    re.MULTILINE,
)
"""An entry of a list of sources with number, title and address: `1. Title: https://...`, `[1] Title (local:...)`.

The number may be bold or in a column of a table.
"""
_ONE_SHOWN: EnglishText = "{n} of {sources} was only seen in search results"
_SEVERAL_SHOWN: EnglishText = "{n:,} of {sources} were only seen in search results"
_NUMBERS = r"\d{1,3}(?:\s?[,;–-]\s?\d{1,3}){0,9}"
MARK = re.compile(rf"\[(?P<numbers>{_NUMBERS})\](?!\()")
_MARK_OR_ADDRESS = re.compile(rf"{MARK.pattern}|local:[^\s<>\"'`]+")
_MARK_OR_ANY_ADDRESS = re.compile(rf"{MARK.pattern}|(?:local:|https?://)[^\s<>\"'`]+")
_SOURCE = (
    r"(?:\^|#|(?:sources?|citations?|refs?\.?|references?|docs?|documents?|web ?pages?|来源|來源|网页|文献)[ :：]{0,2})"
)
_AND = r"(?:[,;–，、；&-]|\band\b|和)"
_BRACKETED = re.compile(
    rf"(?:【|［|〔|(?P<double>\[(?=\[))?\\?\[){_SOURCE}?(?P<numbers>\d{{1,3}}(?:\s?{_AND}\s?{_SOURCE}?\d{{1,3}}){{0,9}})"
    r"\^?(?:†[^】\]\n]{0,40})?(?:】|］|〕|\\?\](?(double)\]))"
    r"(?:(?<=\])\((?:(?P<link>(?:local:|https?://)[^\s()]*)|#[^\s()]{0,40})\)|(?<=\^\d\]|\d\d\]):(?=[ ]))?",
    re.IGNORECASE,
)
_FOREIGN = re.compile(
    rf"[【［〔¹²³⁰⁴-⁹]|\[{_SOURCE}\d|\[\[\d|\\\[\d|\d\]\((?:local|http|#)|\d\s?(?:[，、；&]|\band\b|和)\s?\d|<sup>",
    re.IGNORECASE,
)
_RAISED = re.compile(
    rf"(?:(?<=[^\W\d_]{{3}})|(?<=[.,;:!?)”’\"。，；！？]))(?:<sup>({_NUMBERS})</sup>|([⁰¹²³⁴-⁹]{{1,3}}))"
)
"""Citations in the forms of models: `【1†L3】`, `[^1^]`, `[citation:1]`, `[[1]](https://...)`; `<sup>1</sup>`, `¹`."""
_LINK = 'target="_blank" rel="noopener noreferrer nofollow"'
_HEADING = re.compile(
    r"^ {0,3}(?:(#{1,6})[ ]+(\S.*)|\*\*([^*\n]+)\*\*[:：]?[ ]*|(\S[^\n]{0,40})[:：][ ]*)$", re.MULTILINE
)
"""A heading, also as a line in bold or with a colon at its end."""
SOURCES_HEADING = re.compile(
    r"\W*(?:\d+[.)]? )?(?:(?:list of )?sources?|references?|bibliography|works cited|literature|further reading"
    r"|footnotes|citations|quellen(?:verzeichnis)?|literatur(?:verzeichnis)?|r[ée]f[ée]rences|fuentes|referencias|fonti|fontes"
    r"|referências|bibliogra\w+|bronnen|źródła|kaynak\w+|источники|(?:список )?литератур[аы]|出典|출처"
    r"|참고 ?(?:문헌|자료))"
    r"(?: (?:cited|read|used))?|(?:资料|資料|信息)?[来來]源|(?:参考|參考)(?:文献|文獻|资料|資料|来源)?|引用",
    re.IGNORECASE,
)
"""The name of a list of sources."""
_SOURCES_WORD = re.compile(
    r"source|r[ée]f[ée]rence|bibliogra|litera|links|reading|quelle|citation|fuente|fonti|fontes|referê|referencia|bronnen"
    r"|źród|kaynak|источник|литератур|[来來]源|[参參]考|文[献獻]|引用|出典|출처|참고",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"^ {0,3}(?:[-*][ ]+)?\d{1,3}[.)]+:?[ ]", re.MULTILINE)
_TAG = re.compile(r"<(/?)(\w+)[^>]*>")
_BLOCKS = frozenset({"p", "li", "blockquote", "td", "th", "h1", "h2", "h3", "h4", "h5", "h6"})
_UNCITED = frozenset({"a", "code", "math", "pre"})
"""Elements in which `[1]` is not a citation."""
_MARKUP = re.compile(r"[*_`\\\[\]]")
_TITLE_END = re.compile(r"[\s,;:，；：、]+(?=[\"”’»]?\Z)")
_PASSAGE_MARKUP = re.compile(r"\*\*|`+|!?\[([^\]\n]{0,300})\]\([^)\s]{0,300}\)|[ ]?\|[ ]?(?:[:-]{2,}[: |-]*)?")
"""Markup of Markdown that a passage leaves out; group 1 is the text of a link."""
_WORD = re.compile(r"[^\W_]{3,}|[\u4e00-\u9fff]")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")
_PAGE = re.compile(r"p(?:age)?-?(\d+)\Z")
_PDF_PAGE = re.compile(r"page-\d+\Z")
_MAX_RANGE = 100
_PASSAGE_COLUMNS = 320
_MARKED_SHARE = 0.5
"""Smallest share of a statement's words in a sentence of the source that is marked as the cited sentence."""


@dataclass(frozen=True, slots=True)
class ListedSource:
    """An entry of the list at the end of a report.

    Attributes:
        number: The number in its citation marks.
    """

    number: int
    title: str
    address: str


def source_entries(markdown: str) -> list[re.Match[str]]:
    """Return the entries of the list of sources as matches of `ENTRY`, not the items of other numbered lists.

    An entry is below a heading such as `Sources`, or begins with a number in brackets that no entry below a heading
    has. In a text without such entries, a numbered list in the last section counts if all its items match `ENTRY`.
    """
    if not (matches := list(ENTRY.finditer(markdown))):
        return []
    literal = list(code_and_formulas(markdown))
    entries = [entry for entry in matches if not _is_within(entry.start(), literal)]
    headings = [heading for heading in _HEADING.finditer(markdown) if not _is_within(heading.start(), literal)]
    lists: list[tuple[int, int]] = []  # spans below headings such as `Sources`
    list_level = 0  # the level of the heading of the open list, or 0
    for heading in headings:
        level = len(heading[1] or "#######")
        names_sources = SOURCES_HEADING.fullmatch((heading[2] or heading[3] or heading[4]).strip("#*_:： "))
        if list_level and (names_sources or (level <= list_level and not heading[4])):
            lists[-1] = lists[-1][0], heading.start()
            list_level = 0
        if names_sources:
            lists.append((heading.start(), len(markdown)))
            list_level = level
    numbers = {entry[1] for entry in entries if _is_within(entry.start(), lists)}
    if in_lists := [
        entry
        for entry in entries
        if _is_within(entry.start(), lists)
        or (entry[1] not in numbers and "]" in markdown[entry.start() : entry.end(1) + 1])
    ]:
        return in_lists
    section = max((heading.start() for heading in headings if heading[1]), default=0)
    last = [entry for entry in entries if entry.start() >= section]
    lines = markdown[section : last[0].start()].splitlines() if last else []
    before = next((line for line in reversed(lines) if line.strip() and line[0] not in " \t"), "")
    if _NUMBERED.match(before) or (_HEADING.match(before) and not _SOURCES_WORD.search(before)):
        return []
    return last if last and len(_NUMBERED.findall(markdown, last[0].start())) == len(last) else []


def listed_sources(*texts: str) -> dict[int, ListedSource]:
    """Return the sources in the lists of texts of one run, by number; the first entry with a number counts."""
    sources: dict[int, ListedSource] = {}
    for match in (entry for text in texts for entry in source_entries(text)):
        number, address = int(match[1]), entry_address(match)
        title = _TITLE_END.sub("", " ".join(_MARKUP.sub("", match[2]).split())) or address
        sources.setdefault(number, ListedSource(number, title, address))
    return sources


def addresses_of(*texts: str) -> list[str]:
    """Return the addresses in the lists of sources of texts of one run."""
    return [source.address for source in listed_sources(*texts).values()]


def unread_sentence(cited: Collection[str], evidence: Evidence) -> str:
    """Write `5 of 7 cited sources were only seen in search results, 1 was not read at all`.

    The sentence is empty if no source is certainly unread, and omits a count of zero.
    """
    unread = [address for address in cited if evidence.is_unread(address)]
    n_shown = sum(bool(evidence.snippet(address)) for address in unread)
    n_unseen = len(unread) - n_shown
    fields: dict[str, Any] = {"sources": translate_count(len(cited), "cited source"), "n": n_shown, "m": n_unseen}
    is_first, is_second = n_shown == 1, n_unseen == 1
    if not n_shown:
        none: EnglishText = (
            "{m} of {sources} was not read by this run."
            if is_second
            else "{m:,} of {sources} were not read by this run."
        )
        return translate(none, **fields) if unread else ""
    shown = translate(_ONE_SHOWN if is_first else _SEVERAL_SHOWN, **fields)
    if not n_unseen:
        return translate("{shown}.", shown=shown)
    unseen: EnglishText = "{shown}, {m} was not read at all." if is_second else "{shown}, {m:,} were not read at all."
    return translate(unseen, shown=shown, **fields)


def entry_address(entry: re.Match[str]) -> str:
    """Return the address in a match of `ENTRY`, without the punctuation after it."""
    return entry[3].rstrip(".,;:!?)]。，；：）】")


@dataclass(frozen=True, eq=False)
class Citations:
    """The sources of a text, and the conversion of its marks into citations.

    Attributes:
        listed: The sources, by number.
        evidence: The texts of sources that the run read; a citation of a source without a text has no passage.
        link: Returns the web address or the path of a source, for an address and a passage, or an empty string.
        page_button: Returns the button that shows a page of a PDF, for an address and a passage, or an empty string.
    """

    listed: Mapping[int, ListedSource]
    evidence: Evidence = field(default_factory=Evidence)
    link: Callable[[str, str], str] = lambda address, _passage: address if address.startswith("http") else ""
    page_button: Callable[[str, str], str] = lambda _address, _passage: ""

    def __post_init__(self) -> None:
        """Cache converted blocks, because a streaming view converts them with each update."""
        mark = self.evidence.marks.apply
        convert = lru_cache(512)(lambda markup: mark(self._apply(markup) if self.listed else markup))
        is_plain = not self.listed and self.evidence.marks is NO_MARKS
        object.__setattr__(self, "apply", (lambda markup: markup) if is_plain else convert)

    apply: Callable[[str], str] = field(init=False, repr=False)
    """Convert the marks in sanitised HTML to citations, and mark statements; HTML without a mark is unchanged."""

    def _apply(self, markup: str) -> str:
        if not MARK.search(markup) and "local:" not in markup:
            return markup
        pieces: list[str] = []
        statement = ""
        depth = position = 0
        for tag in (*_TAG.finditer(markup), None):
            text = markup[position : tag.start() if tag else None]
            if not depth:
                text, statement = self._convert_text(text, statement)
            pieces.append(text)
            if tag is None:
                break
            pieces.append(tag[0])
            position = tag.end()
            if tag[2] in _UNCITED:
                depth += -1 if tag[1] else 1
            elif tag[2] in _BLOCKS:
                statement = ""
        return "".join(pieces)

    def _convert_text(self, text: str, statement: str) -> tuple[str, str]:
        """Convert the marks and addresses in a text without tags; also return the statement up to the text's end."""
        pieces: list[str] = []
        end = 0
        for mark in _MARK_OR_ADDRESS.finditer(text):
            before = text[end : mark.start()]
            statement += before
            piece = mark[0]
            if mark[1] is not None:
                numbers, sentence = dict.fromkeys(cited_numbers(mark[1])), html.unescape(statement)
                if all(number in self.listed for number in numbers):
                    piece = "".join(self._mark_html(self.listed[number], sentence) for number in numbers) or piece
            elif link := self.link(html.unescape(piece).rstrip(".,;:!?)]"), ""):  # the file of a local source
                piece = f'<a href="{escape(link)}" {_LINK}>{piece}</a>'
            pieces += [before, piece]
            end = mark.end()
        return "".join([*pieces, text[end:]]), statement + text[end:]

    def _mark_html(self, source: ListedSource, statement: str) -> str:
        parts = [f"<b>{escape(source.title)}</b>"]
        section = source.address.partition("#")[2] if source.title != source.address else ""
        cited = ""
        is_unread, snippet = self.evidence.is_unread(source.address), self.evidence.snippet(source.address)
        if source.address.startswith("local:") and section:
            page = _PAGE.match(section)
            label = translate("Section {section}", section=escape(section))
            if page:
                label = translate("Page {page}", page=page[1])
            parts.append(f"<small>{label}</small>")
        if is_unread:
            note = translate("This run has not read this source.")
            note += f" {translate('Passage in the search results:')}" if snippet else ""
            parts.append(f"<small>{note}</small>")
            parts += [f"<q>{escape(snippet)}</q>"] if snippet else []
        elif text := self.evidence.text(source.address):
            passage = find_passage(statement, text)
            cited = passage[1]
            before, quoted, after = (
                _PASSAGE_MARKUP.sub(lambda mark: mark[1] or (" · " if "|" in mark[0] else ""), part).strip(" ·")
                for part in passage
            )
            words = f"<mark>{escape(quoted)}</mark>" if quoted else ""
            parts.append(f"<q>{' '.join(filter(None, [escape(before), words, escape(after)]))}</q>")
            if source.address.startswith("local:") and _PDF_PAGE.match(section):
                parts.append(self.page_button(source.address, quoted or before))
        if link := self.link(source.address, cited):
            parts.append(f'<a href="{escape(link)}" {_LINK}>{translate("Open the source")}</a>')
        elif source.title != source.address:
            parts.append(f"<small>{escape(source.address)}</small>")
        mark = f"[{source.number}] {source.title}"
        name = mark
        if is_unread:
            name = translate(
                "{mark}, seen in search results only" if snippet else "{mark}, not read by this run", mark=mark
            )
        css = "af-cite-mark af-cite-unread" if is_unread else "af-cite-mark"
        return (
            f'<span class="af-cite"><span class="{css}" tabindex="0" role="button" aria-label="{escape(name)}">'
            f'[{source.number}]</span><span class="af-passage" hidden="hidden">{"".join(parts)}</span></span>'
        )


def cited_statement(markdown: str, number: int) -> str:
    """Return the text before the first mark of a number, in the same paragraph, or an empty string."""
    for paragraph in re.split(r"\n\s*\n", markdown):
        for mark in MARK.finditer(paragraph):
            if number in cited_numbers(mark[1]):
                return " ".join(_MARKUP.sub("", MARK.sub("", paragraph[: mark.start()])).split())
    return ""


def cited_numbers(mark: str) -> list[int]:
    """Parse the numbers in a mark such as `[1, 3-5]`, without the brackets."""
    numbers: list[int] = []
    for part in re.split(r"\s?[,;]\s?", mark):
        ends = [int(number) for number in re.findall(r"\d+", part)]
        numbers += range(ends[0], min(ends[-1], ends[0] + _MAX_RANGE) + 1)
    return numbers


def find_passage(statement: str, text: str) -> tuple[str, str, str]:
    """Find the sentence of a source that a statement cites.

    Returns:
        The text before the sentence, the sentence, and the text after it. If no sentence shares enough words with the
        statement, the first text is the beginning of the source and the other two are empty.
    """
    sentence = next((part for part in reversed(_SENTENCE_END.split(statement.strip())) if _WORD.search(part)), "")
    words = set(_WORD.findall(sentence.casefold()))
    quotes = [sentence.quote for sentence in split_sentences(text)]
    shares = [len(words & set(_WORD.findall(quote.casefold()))) / max(len(words), 1) for quote in quotes]
    best = max(range(len(quotes)), key=shares.__getitem__, default=-1)
    if best < 0 or shares[best] < _MARKED_SHARE:
        return clip(" ".join(quotes) or " ".join(text.split()), _PASSAGE_COLUMNS), "", ""
    around = max((_PASSAGE_COLUMNS - len(quotes[best])) // 2, 0)
    before, after = " ".join(quotes[:best]), " ".join(quotes[best + 1 :])
    if len(before) > around:
        before = f"… {before[len(before) - around :].partition(' ')[2]}"
    return before, clip(quotes[best], 2 * _PASSAGE_COLUMNS), clip(after, around) if around else ""


def statements_by_address(markdown: str) -> dict[str, list[str]]:
    """Return the sentences of a report that cite each address, by a mark `[1]` or by the address itself."""
    sources = listed_sources(markdown)
    own = {entry[0] for entry in source_entries(markdown)}
    statements: dict[str, list[str]] = {}
    for line in markdown.splitlines():
        if (entry := ENTRY.match(line)) and entry[0] in own:
            continue
        for mark in _MARK_OR_ANY_ADDRESS.finditer(line):
            numbers = [int(number) for number in re.findall(r"\d+", mark[1] or "")]
            cited = [sources[number].address for number in numbers if number in sources]
            before = _MARK_OR_ANY_ADDRESS.sub("", line[: mark.start()]).lstrip("> -*#").rstrip(" ([")
            sentence = next((part for part in reversed(_SENTENCE_END.split(before)) if _WORD.search(part)), "")
            for address in cited if mark[1] else [mark[0].rstrip(".,;:!?)]")]:
                sentences = statements.setdefault(address, [])
                sentences += [sentence.strip()] if sentence and sentence.strip() not in sentences else []
    return statements


_CODE_OR_FORMULA = re.compile(
    r"^[ ]{0,3}(?P<fence>`{3,}|~{3,}).*?(?:^[ ]{0,3}(?P=fence)|\Z)"
    r"|(?<![\\`])(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)"
    r"|(?P<formula>\$|\\[(\[])",
    re.MULTILINE | re.DOTALL,
)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_COUNTED_ITEM = re.compile(r" {0,3}\d{1,3}[.)][ ]+")
REST_OF_ENTRY = re.compile(r".*(?:\n[ \t]{2,}\S.*)*\n?")
_MARK = MARK.pattern.replace("(?P<numbers>", "(?:")
_MARKS = re.compile(rf"{_MARK}(?:[ ]?{_MARK})*")


def _with_plain_marks(markdown: str) -> str:
    """Write the citations of listed sources as `[1]`; models write several other forms."""
    if not _FOREIGN.search(markdown):
        return markdown

    def convert(text: str, form: re.Pattern[str], listed: Mapping[int, ListedSource] | None) -> str:
        literal = list(code_and_formulas(text))

        def plain(mark: re.Match[str]) -> str:
            numbers = (mark[1] or mark[2]).translate(_SUPERSCRIPTS) if form is _RAISED else mark["numbers"]
            if not re.fullmatch(_NUMBERS, numbers):
                numbers = ", ".join(re.findall(r"\d+(?:\s?[–-]\s?\d+)?", numbers))
            cited = cited_numbers(numbers)
            link = mark["link"] if form is _BRACKETED else None
            if mark.span() not in literal and _is_within(mark.start(), literal):
                return mark[0]
            if listed is not None and not all(number in listed for number in cited):
                return mark[0]
            return mark[0] if link and (not listed or listed[cited[0]].address != link) else f"[{numbers}]"

        return form.sub(plain, text)

    listed = listed_sources(convert(markdown, _BRACKETED, None))
    if not listed:
        return markdown
    plain = convert(markdown, _BRACKETED, listed)
    entries = [entry.span() for entry in source_entries(plain)]
    is_cited = any(not _is_within(mark.start(), entries) for mark in MARK.finditer(plain))
    return plain if is_cited else convert(plain, _RAISED, listed)


class SourceNumbers:
    """Numbers the sources in the texts of a run: an address has the same number, from 1, in all texts."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._newest: dict[int, int] = {}  # the number of each entry of the newest list, by the number in the text

    def apply(self, markdown: str) -> str:
        """Write the numbers into the marks and the list of sources of a text, in which each address keeps one entry.

        A text without a list cites the newest list before the text. Citations become `[1]`; code and formulas stay. If
        citations are ambiguous, the numbers stay: two entries with one number differ in address, or a cited number is
        not listed. If the numbers are not 1, 2, 3, an entry `4. A` becomes `- [4] A`, because Markdown counts the
        items of a numbered list.
        """
        markdown = _with_plain_marks(markdown)
        entries = source_entries(markdown)
        addresses: dict[int, str] = {}
        for entry in entries:
            if addresses.setdefault(int(entry[1]), entry_address(entry)) != entry_address(entry):
                return markdown
        all_numbers = dict(self._numbers)
        numbers = {n: all_numbers.setdefault(a, len(all_numbers) + 1) for n, a in addresses.items()} or self._newest
        own, literal = [entry.span() for entry in entries], list(code_and_formulas(markdown))
        changes: list[tuple[int, int, str]] = []
        for marks in _MARKS.finditer(markdown) if numbers else ():
            if _is_within(marks.start(), literal) or _is_within(marks.start(), own):
                continue
            cited = [number for mark in MARK.finditer(marks[0]) for number in cited_numbers(mark[1])]
            if not numbers.keys() >= set(cited):
                return markdown
            if cited != [numbers[number] for number in cited]:
                separator = ", " if marks[0].count("[") == 1 else "]["
                cited_now = separator.join(map(str, dict.fromkeys(numbers[number] for number in cited)))
                changes.append((*marks.span(), f"[{cited_now}]"))
        self._numbers, self._newest = all_numbers, numbers
        is_counted = list(dict.fromkeys(numbers.values())) == list(range(1, len(set(numbers.values())) + 1))
        seen: set[int] = set()
        for entry in entries:
            number = numbers[int(entry[1])]
            item = None if is_counted else _COUNTED_ITEM.match(markdown, entry.start())
            if number in seen and (rest := REST_OF_ENTRY.match(markdown, entry.start())):
                changes.append((*rest.span(), ""))
            elif item:
                changes.append((*item.span(), f"- [{number}] "))
            elif str(number) != entry[1]:
                changes.append((*entry.span(1), str(number)))
            seen.add(number)
        for start, end, text in sorted(changes, reverse=True):
            markdown = markdown[:start] + text + markdown[end:]
        return markdown


def code_and_formulas(markdown: str) -> Iterator[tuple[int, int]]:
    """Return the spans of code and formulas, in order."""
    position = 0
    while match := _CODE_OR_FORMULA.search(markdown, position):
        formula = formula_at(markdown, match.start()) if match["formula"] else None
        position = formula.end if formula else match.end()
        if formula or not match["formula"]:
            yield match.start(), position


def _is_within(position: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Return whether a position is in one of the spans, which are ordered."""
    index = bisect_right(spans, position, key=itemgetter(0)) - 1
    return index >= 0 and position < spans[index][1]
