"""The text of a block as the offline model writes it, and what it can quote from the texts of blocks.

::

    > A sentence of a source. [1]

    *A word of the model's own.*

    **Sources** (quoted verbatim; no language model was used)

    1. Title of the source — local:its#address

A sentence that another block quoted keeps the address of its source; one that a person wrote has that of its block,
`@Report / Method`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from artifactflow_nb.models.offline_block_read import BlockText
from artifactflow_nb.models.offline_block_words import BLOCK_PHRASES, UNUSED
from artifactflow_nb.models.offline_researched import is_own_word, is_source_list, parts_of
from artifactflow_nb.text.citations import Quotes
from artifactflow_nb.text.sentences import sentences
from artifactflow_nb.text.source_list import read_sources

_QUOTE = re.compile(r"\A> (.*) \[(\d+)\]\Z")
_SOURCE = re.compile(r"^(\d+)\. (.*) — ((?:local:|https?://)\S+|@.+)$", re.MULTILINE)
_LIST = tuple(f"**{phrases['sources']}** (" for phrases in BLOCK_PHRASES.values())


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence with the title and the address of where it stands."""

    sentence: str
    title: str
    address: str


def written(said: Sequence[Said], remarks: Iterable[str], heading: str) -> str:
    """The text of a block: the sentences in their order, remarks, and under the heading the sources."""
    sources = {one.address: one.title for one in reversed(said)}
    cited = list(dict.fromkeys(one.address for one in said))
    parts = [f"> {one.sentence} [{cited.index(one.address) + 1}]" for one in said]
    parts += [f"*{remark}*" for remark in remarks]
    listed = "\n".join(f"{n}. {sources[address]} — {address}" for n, address in enumerate(cited, 1))
    return "\n\n".join([*parts, *([heading, listed] if cited else [])])


def is_ours(content: str) -> bool:
    """Whether the model has written a text, whatever a person has changed in it."""
    return any(words in content for words in UNUSED)


def said_in(quotes: Iterable[Quotes]) -> list[Said]:
    """What was quoted, sentence by sentence."""
    return [Said(sentence, one.title, one.address) for one in quotes for sentence in one.sentences]


def quotable(text: BlockText) -> list[Said]:
    """The sentences of a block's text, in order: what it quotes, and what was written in it."""
    return list(_of_sources(text) if is_source_list(text.content) else _quotable(text))


def _of_sources(text: BlockText) -> Iterator[Said]:
    """What stands in a list of what was read."""
    for source in read_sources(text.content):
        yield from (Said(one.quote, source.title, source.address) for one in sentences(source.text))


def _quotable(text: BlockText) -> Iterator[Said]:
    sources = {number: (title, address) for number, title, address in _SOURCE.findall(text.content)}
    listed = False
    for part in parts_of(text.content):
        quote = _QUOTE.match(part.text)
        if quote and quote[2] in sources:
            yield Said(quote[1], *sources[quote[2]])
        elif part.text.startswith(_LIST):
            listed = True
        elif not (part.is_listed or _is_remark(part.text) or (listed and _SOURCE.match(part.text))):
            yield from (Said(one.quote, text.name, f"@{text.path}") for one in sentences(part.said))


def _is_remark(paragraph: str) -> bool:
    """Whether a paragraph is a word of the model's own."""
    return is_own_word(paragraph) or (
        paragraph.startswith("*") and paragraph.endswith("*") and not paragraph.startswith("**")
    )
