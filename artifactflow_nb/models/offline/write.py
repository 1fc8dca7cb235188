"""The writer of a block.

A summary quotes the beginnings of the block's dependencies. Every other block answers its prompt or its name from
research reports among its dependencies, from the sources that a dependency lists, or from all sources, which are
searched and read. If these contain no answer, it quotes the other dependencies.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from artifactflow_nb.core.document.project import ProjectInfo
from artifactflow_nb.core.document.tree import Block, BlockTree
from artifactflow_nb.models.offline.block_texts import (
    BlockText,
    Quote,
    is_offline_text,
    is_report,
    is_source_list,
    quotes_from,
    split_quotes,
    text_title,
    write_text,
)
from artifactflow_nb.models.offline.phrases import phrases_for
from artifactflow_nb.models.offline.questions import is_follow_up
from artifactflow_nb.models.offline.ranking import MAX_SENTENCES, best_quotes
from artifactflow_nb.models.offline.research import LOOKUP_TOOLS, find_quotes, look_up
from artifactflow_nb.models.offline.turn import Reply, Turn, find_failures, state_question, without_addresses
from artifactflow_nb.sources.citations import SourceDocument, SourceQuotes, find_addresses, read_sources
from artifactflow_nb.sources.retrieval.stopwords import STOP_WORDS
from artifactflow_nb.sources.retrieval.terms import parse_query

_SUMMARY = re.compile(
    r"\b(?:summary|summar[iy][sz]e|sum up)\b|\b(?:abstract|overview|conclusions?)(?: of\b.*)?\W*$"
    r"|摘要|总结|總結|小结|小結|(?:概要|概述|综述|綜述|结论|結論|结语|結語)\W*$",
    re.IGNORECASE,
)
_QUOTED_LINE = re.compile(r"^> .*$", re.MULTILINE)
_QUESTION_SENTENCE = re.compile(r"[^.!?。！？\n]+[?？]")
_SENTENCES_PER_TEXT = 2  # in a summary
_SHORT_TEXT_CHARS = 300  # a text up to this length may itself be the question

# --- the length of a text --------------------------------------------------------------------------------------------

_NUMBER_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: n for n, word in enumerate(_NUMBER_WORDS, 1)} | {"两": 2, "兩": 2}
_NUMBERS |= {character: n for n, character in enumerate("一二三四五六七八九十", 1)}
_ENGLISH = "|".join(word for word in _NUMBERS if word.isascii())
_CHINESE = "".join(word for word in _NUMBERS if not word.isascii())
_MORE = r"(?:(?:please|make it|keep it|be|a bit|a little|much|more|rather|very|too) )*"
_COUNT = re.compile(
    rf"(?:\b(?:in|with|at most|only|no more than|just|use|to) )*\b(\d{{1,3}}|{_ENGLISH}) (?:short )?sentences?\b"
    rf"|\bin a (?:single )?sentence\b|(?:用|最多|不超过|不超過|只用|只要)*(\d{{1,3}}|[{_CHINESE}])[个個]?句(?:话|話)?",
    re.IGNORECASE,
)
_SHORTER = re.compile(
    rf"\b{_MORE}(?:shorter|short|briefer|briefly|brief|concisely|concise)\b|\btoo long\b"
    r"|(?:[请請要更再]|写得|寫得)*(?:(?:精简|精簡|简短|簡短|简洁|簡潔|缩短|縮短)(?:一?[点點些])?|短一?[点點些])|更短|太[长長]",
    re.IGNORECASE,
)
_LONGER = re.compile(
    rf"\b{_MORE}(?:longer|in (?:more )?detail|detailed|in depth|details?)\b|\btoo short\b"
    r"|(?:[请請要更再]|写得|寫得)*(?:(?:详细|詳細)(?:一?[点點些])?|[长長]一?[点點些])|更[长長]|太短",
    re.IGNORECASE,
)
_FILLER = re.compile(r"\b(?:please|at most|only|and|but|it|is)\b|[了吧请請]|以内|以內", re.IGNORECASE)
_LONG = 12  # sentences of a longer text


@dataclass(frozen=True, slots=True)
class Length:
    """The requested length of a text.

    Attributes:
        max_sentences: Maximum number of sentences.
        is_requested: Whether the style mentions the length.
        rest: The rest of the style.
    """

    max_sentences: int = MAX_SENTENCES
    is_requested: bool = False
    rest: str = ""


def read_length(style: str, n_before: int) -> Length:
    """Parse the length in a style; `n_before` is the number of sentences of the previous text."""
    if match := _COUNT.search(style):
        number = (match[1] or match[2] or "one").lower()
        limit = max(int(number) if number.isdigit() else _NUMBERS[number], 1)
    elif match := _SHORTER.search(style):
        limit = max((n_before or MAX_SENTENCES) // 2, 1)
    elif match := _LONGER.search(style):
        limit = max(_LONG, 2 * n_before)
    else:
        return Length(rest=style)
    rest = " ".join(f"{style[: match.start()]} {style[match.end() :]}".split()).strip(" ,.;:!，。；：！、")
    return Length(limit, is_requested=True, rest=rest if re.search(r"\w", _FILLER.sub(" ", rest)) else "")


# --- the text --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BlockTask:
    """The block to write.

    Attributes:
        name: Its name.
        project: The project's name.
        prompt: Its prompt.
        length: The length that the person requests.
        texts: The texts that it depends on.
    """

    name: str
    project: str = ""
    prompt: str = ""
    length: Length = field(default_factory=Length)
    texts: Sequence[BlockText] = ()

    @classmethod
    def of(cls, info: ProjectInfo, tree: BlockTree, block: Block, style: str) -> "BlockTask":
        """Create the task for a block of a project."""
        needs = [tree[key] for key in tree.dependencies(block.block_id) if key in tree]
        texts = [BlockText(tree.path(need.block_id), need.content) for need in needs if need.sha256]
        length = read_length(style, len(_QUOTED_LINE.findall(block.content)))
        return cls(block.name, info.name, block.prompt.strip(), length, texts)

    @property
    def language(self) -> str:
        """A text in the language in which the block must be written."""
        return self.prompt or f"{self.name} {self.project}"

    @property
    def listed_addresses(self) -> list[str]:
        """The addresses in the lists of sources of the dependencies."""
        return list(dict.fromkeys(source.address for text in self.texts for source in read_sources(text.content)))

    @property
    def remarks(self) -> list[str]:
        """A remark if the style asks for something that quotes cannot do; empty otherwise."""
        rest = self.length.rest
        return [phrases_for(rest)["unfollowed"].format(style=" ".join(rest.split()))] if rest else []


def write_block(turn: Turn, task: BlockTask) -> Reply:
    """Search or read for a block, then write its text."""
    if task.texts and _SUMMARY.search(task.prompt or task.name):
        return Reply(_summary(task))
    lookup, phrases = _lookup(turn, task), phrases_for(task.language)
    reports = [] if find_addresses(task.prompt) else [text for text in task.texts if is_report(text.content)]
    if quotes := _from_texts(lookup, reports, task.length):
        quoted = [text.name for text in reports if not set(quotes).isdisjoint(quotes_from(text))]
        return Reply(write_text(quotes, task.remarks, _quoted_from(task, quoted)))
    reply = look_up(lookup) if lookup.has_any(LOOKUP_TOOLS) else Reply()
    if reply.calls:
        return reply
    known, limit = {quote.sentence for text in task.texts for quote in quotes_from(text)}, task.length.max_sentences
    found: list[SourceQuotes] = []
    # Sentences of the dependencies are quoted again only if there are no others.
    for max_sentences, excluded in ((limit, known), (limit, ()), (MAX_SENTENCES, ())):
        found = found or find_quotes(lookup, max_sentences, excluded)
    quotes = split_quotes(found)[:limit] or _from_texts(lookup, task.texts, task.length)
    remarks = [] if quotes else [phrases["no_quotes"]]
    remarks += [phrases["problem"].format(problem=problem) for problem in find_failures(reply.text)]
    origin = phrases["quoted_read"] if task.listed_addresses else phrases["quoted"]
    return Reply(write_text(quotes, [*remarks, *task.remarks], f"**{phrases['sources']}** ({origin})"))


def _lookup(turn: Turn, task: BlockTask) -> Turn:
    """Convert the block to a task of searching and reading; addresses in its prompt or in a list are only read."""
    lines = [state_question(*_question(task))]
    addresses = find_addresses(task.prompt) or task.listed_addresses
    if addresses:
        lines += ["Sources:", *(f"- {address}" for address in addresses)]
    tools = LOOKUP_TOOLS[1:] if addresses else LOOKUP_TOOLS
    return turn.with_instruction("\n".join(lines), turn.tools.intersection(tools))


def _question(task: BlockTask) -> tuple[str, str]:
    """Return the question that the block answers, and the text to which the question refers.

    If the prompt has no subject (`Answer the question.`), the subject comes from the dependencies (titles of reports,
    questions in texts, short texts), or from the names of the block and the project.
    """
    own = _on_one_line(task.prompt) or task.name
    questions: list[str] = []
    for content in (text.content for text in task.texts):
        if is_report(content):
            questions.append(text_title(content))
        elif not (is_offline_text(content) or is_source_list(content)):
            whole = [content] if len(content) <= _SHORT_TEXT_CHARS else []
            questions += _QUESTION_SENTENCE.findall(content) or whole
    below = _on_one_line(" ".join(questions))
    names = f"{task.name} {task.project}"
    has_subject = any(weight >= 1 and term not in STOP_WORDS for term, weight in parse_query(own).terms.items())
    if has_subject and (task.prompt or not is_follow_up(own) or not below):
        return own, (below or names) if is_follow_up(own) else ""
    return below or names, own if below else ""


def _on_one_line(text: str) -> str:
    return " ".join(without_addresses(text).split())


def _from_texts(lookup: Turn, texts: Iterable[BlockText], length: Length) -> list[Quote]:
    """Return the sentences of texts that answer the question."""
    known: dict[str, Quote] = {}
    documents = []
    for text in texts:
        new = {quote.sentence: quote for quote in quotes_from(text) if quote.sentence not in known}
        documents += [SourceDocument(f"@{text.path}", text.path, "\n\n".join(new))] if new else []
        known |= new
    found = best_quotes(lookup.query, documents, None, lookup.question, max_sentences=length.max_sentences)
    return [known[quote.sentence] for quote in split_quotes(found) if quote.sentence in known]


def _summary(task: BlockTask) -> str:
    """Quote the beginnings of the block's dependencies."""
    length = task.length
    prose = [text for text in task.texts if not is_source_list(text.content)] or task.texts
    texts = [(text.name, quotes) for text in prose if (quotes := quotes_from(text))]
    limit, per_text = None, _SENTENCES_PER_TEXT
    if length.is_requested:
        limit, per_text = length.max_sentences, max(length.max_sentences // max(len(texts), 1), 1)
    quotes = [quote for _, found in texts for quote in found[:per_text]][:limit]
    remarks = [*([] if quotes else [phrases_for(task.language)["no_quotes_below"]]), *task.remarks]
    return write_text(quotes, remarks, _quoted_from(task, [name for name, _ in texts]))


def _quoted_from(task: BlockTask, names: Sequence[str]) -> str:
    """Return the heading for the sources of a text that quotes blocks."""
    phrases = phrases_for(task.language)
    blocks = phrases["between_names"].join(phrases["name"].format(name=name) for name in names)
    return f"**{phrases['sources']}** ({phrases['quoted_from'].format(blocks=blocks)})"
