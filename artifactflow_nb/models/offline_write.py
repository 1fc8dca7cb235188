"""The offline model as the writer of a block.

A summary quotes how the texts begin that the block rests on. Any other block is an answer to its prompt, or to its
name. One that rests on reports of research is quoted from these; one that rests on a list of what was read, from that,
which is read again; any other from the sources, which are searched and read. What they do not say may stand in the
texts below it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from artifactflow_nb.models import offline_read
from artifactflow_nb.models.offline_block_read import BlockText, WriteTask
from artifactflow_nb.models.offline_block_words import block_words
from artifactflow_nb.models.offline_length import Length, length_of
from artifactflow_nb.models.offline_quoted import Said, is_ours, quotable, said_in, written
from artifactflow_nb.models.offline_report import words
from artifactflow_nb.models.offline_researched import is_report, is_source_list, title_of
from artifactflow_nb.models.offline_transcript import Transcript, failures, leans
from artifactflow_nb.models.ranking import MOST_QUOTES, best_quotes
from artifactflow_nb.text.citations import Document, addresses_in
from artifactflow_nb.text.source_list import read_sources
from artifactflow_nb.text.wordlists import STOP_WORDS
from artifactflow_nb.text.words import query_of
from artifactflow_nb.xml_calls import parse_reply

_LOOKING = ("web_search", "web_fetch")
_SUMMARY = re.compile(
    r"\b(?:summary|summar[iy][sz]e|sum up)\b|\b(?:abstract|overview|conclusions?)(?: of\b.*)?\W*$"
    r"|摘要|总结|總結|小结|小結|(?:概要|概述|综述|綜述|结论|結論|结语|結語)\W*$",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"\b(?:local:|https?://)\S+")
_QUOTED = re.compile(r"^> .*$", re.MULTILINE)
_LEADING = 2  # sentences of each text in a summary
_SHORT_TEXT = 300  # characters of a text that may itself be what is asked


def turn(transcript: Transcript) -> str:
    """The writer's next turn: a search, a reading, or the text of the block."""
    task = WriteTask.read(transcript.instruction)
    length = length_of(task.style, len(_QUOTED.findall(task.before)))
    if task.texts and _SUMMARY.search(task.prompt or task.name):
        return _summary(task, length)
    inner = _brief(transcript, task)
    reports = [] if addresses_in(task.prompt) else [text for text in task.texts if is_report(text.content)]
    if found := _from_texts(inner, reports, length):
        quoted = [text.name for text in reports if not set(found).isdisjoint(quotable(text))]
        return written(found, _unfollowed(task, length), _quoted_from(task, quoted))
    said = offline_read.look(inner) if any(map(inner.plays, _LOOKING)) else ""
    if parse_reply(said).calls:
        return said
    say = block_words(_language(task))
    found = _from_sources(inner, task, length) or _from_texts(inner, task.texts, length)
    remarks = [] if found else [say["absent"]]
    remarks += [words(_language(task))["problem"].format(problem=problem) for problem in failures(said)]
    how = say["quoted_read"] if _listed(task) else say["quoted"]
    return written(found, [*remarks, *_unfollowed(task, length)], f"**{say['sources']}** ({how})")


def _language(task: WriteTask) -> str:
    """What tells in which language the block is to be written."""
    return task.prompt or f"{task.name} {task.project}"


def _unfollowed(task: WriteTask, length: Length) -> Iterator[str]:
    """What was asked of the style that quotes cannot do."""
    if length.rest:
        yield block_words(task.style)["unfollowed"].format(style=" ".join(length.rest.split()))


def _brief(transcript: Transcript, task: WriteTask) -> Transcript:
    """The block as a searcher and reader is asked it: what its prompt names is read, or what it rests on lists.

    Where there is neither, there is a search.
    """
    question, context = _asked(task)
    lines = [f"Question: {question}", *([f"Earlier question: {context}"] if context else [])]
    named = addresses_in(task.prompt) or _listed(task)
    lines += ["Sources:", *(f"- {address}" for address in named)] if named else []
    tools = frozenset(_LOOKING[1:] if named else _LOOKING) & transcript.tools
    return replace(transcript, instruction="\n".join(lines), earlier="", tools=tools)


def _asked(task: WriteTask) -> tuple[str, str]:
    """What the block shall answer, and what that leans on.

    A prompt that names no subject (`Answer the question.`) leaves it to the short texts that the block rests on, or to
    the names of the block and the project.
    """
    own = _line(task.prompt) or task.name
    given = _line(" ".join(line for text in task.texts for line in _questions(text.content)))
    names = f"{task.name} {task.project}"
    if _names_a_subject(own) and (task.prompt or not leans(own) or not given):
        return own, given or names if leans(own) else ""
    return given or names, own if given else ""


def _questions(content: str) -> list[str]:
    """What a text asks, or all of it if it is short enough to be what is asked; of a report what was asked for it."""
    if is_report(content):
        return [title_of(content)]
    if is_ours(content) or is_source_list(content):
        return []
    asked = re.findall(r"[^.!?。！？\n]+[?？]", content)
    return asked or ([content] if len(content) <= _SHORT_TEXT else [])


def _names_a_subject(text: str) -> bool:
    return any(weight >= 1 and term not in STOP_WORDS for term, weight in query_of(text).terms.items())


def _line(text: str) -> str:
    """A text on one line, without addresses."""
    return " ".join(_ADDRESS.sub(" ", text).split())


def _from_sources(inner: Transcript, task: WriteTask, length: Length) -> list[Said]:
    """What the sources say; what stands in the texts that the block rests on only if there is nothing else."""
    known = {one.sentence for text in task.texts for one in quotable(text)}
    for most, but in ((length.most, known), (length.most, ()), (MOST_QUOTES, ())):
        if quotes := offline_read.quotes_of(inner, most, but):
            return said_in(quotes)[: length.most]
    return []


def _listed(task: WriteTask) -> list[str]:
    """The addresses of what was read for the block, as what it rests on lists them."""
    return list(dict.fromkeys(one.address for text in task.texts for one in read_sources(text.content)))


def _from_texts(inner: Transcript, texts: Iterable[BlockText], length: Length) -> list[Said]:
    """What these texts, which the block rests on, say to what is asked."""
    known: dict[str, Said] = {}
    documents = []
    for text in texts:
        new = {one.sentence: one for one in quotable(text) if one.sentence not in known}
        documents += [Document(f"@{text.path}", text.path, "\n\n".join(new))] if new else []
        known |= new
    quotes = best_quotes(inner.query, documents, None, inner.question, most=length.most)
    return [known[one.sentence] for one in said_in(quotes) if one.sentence in known]


def _summary(task: WriteTask, length: Length) -> str:
    """How the texts begin that the block rests on, in their order."""
    say = block_words(_language(task))
    told = [text for text in task.texts if not is_source_list(text.content)] or task.texts
    texts = [(text.name, said) for text in told if (said := quotable(text))]
    each = max(length.most // max(len(texts), 1), 1) if length.is_asked else _LEADING
    chosen = [one for _, said in texts for one in said[:each]]
    chosen = chosen[: length.most] if length.is_asked else chosen
    remarks = [*([] if chosen else [say["none_below"]]), *_unfollowed(task, length)]
    return written(chosen, remarks, _quoted_from(task, [name for name, _ in texts]))


def _quoted_from(task: WriteTask, names: Sequence[str]) -> str:
    """What stands above the sources of a text that quotes blocks."""
    say = block_words(_language(task))
    blocks = say["between_names"].join(say["name"].format(name=name) for name in names)
    return f"**{say['sources']}** ({say['quoted_from'].format(blocks=blocks)})"
