"""A document taken apart once, for everything that ranks or quotes it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from artifactflow_nb.text.blocks import Passage, blocks, passages_of
from artifactflow_nb.text.citations import Document
from artifactflow_nb.text.cues import asides
from artifactflow_nb.text.relevance import Words
from artifactflow_nb.text.sentences import Sentence, sentences_of
from artifactflow_nb.text.words import terms, title_terms


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence in its surroundings.

    Attributes:
        sentence: The sentence.
        terms: Its own words.
        paragraph: The words of the paragraph or list item that it stands in.
        heading: The words of the terms and headings that it stands under.
        passage: The place of its passage in the document, from 0.
        aside: Whether its paragraph only points elsewhere.
        opens: The words of the title, heading or term that it is the first sentence under; else none.
    """

    sentence: Sentence
    terms: tuple[str, ...]
    paragraph: frozenset[str]
    heading: frozenset[str]
    passage: int
    aside: bool
    opens: frozenset[str]


@dataclass(frozen=True)
class Dissected:
    """A document taken apart.

    Attributes:
        document: The document.
        anchor: The terms of the last part of its address.
        title: The terms of its own title.
        passages: Its passages.
        words: The words of each passage.
        sentences: Its quotable sentences.
        asides: The starts of the paragraphs that only point elsewhere.
    """

    document: Document
    anchor: tuple[str, ...]
    title: tuple[str, ...]
    passages: tuple[Passage, ...]
    words: tuple[Words, ...]
    sentences: tuple[Sentence, ...]
    asides: frozenset[int]

    def only(self, places: Sequence[int]) -> "Dissected":
        """The document with these of its passages alone, by their places, and the sentences in them."""
        passages = tuple(self.passages[place] for place in places)
        inside = tuple(s for s in self.sentences if any(p.start <= s.start < p.end for p in passages))
        return replace(self, passages=passages, words=tuple(self.words[place] for place in places), sentences=inside)

    @cached_property
    def spoken(self) -> tuple[Spoken, ...]:
        """Its sentences with their surroundings; made when they are wanted, because most documents are not quoted."""
        return tuple(_spoken(self))


def dissect(document: Document) -> Dissected:
    """Take a document apart."""
    about, _, named = document.title.rpartition(": ")
    anchor, title = tuple(title_terms(document.address.partition("#")[2])), tuple(title_terms(named))
    above = tuple(terms(about))
    found = blocks(document.text)
    cut = tuple(passages_of(document.text, found))
    words = tuple(
        Words(
            (*anchor, *title),
            (*above, *title_terms(passage.heading)),
            tuple(terms(document.text[passage.start : passage.end])),
        )
        for passage in cut
    )
    sentences = tuple(sentences_of(document.text, found))
    return Dissected(document, anchor, title, cut, words, sentences, frozenset(asides(document.text, found)))


def _spoken(whole: Dissected) -> Iterator[Spoken]:
    own = [tuple(terms(one.quote)) for one in whole.sentences]
    paragraphs: dict[int, set[str]] = {}
    for one, said in zip(whole.sentences, own, strict=True):
        paragraphs.setdefault(one.block, set()).update(said)
    place, opened = 0, ""
    for n, (one, said) in enumerate(zip(whole.sentences, own, strict=True)):
        while place + 1 < len(whole.passages) and whole.passages[place + 1].start <= one.start:
            place += 1
        head = whole.passages[place].heading
        opens = title_terms(head.rpartition(" / ")[2]) if head != opened else ()
        opened = head
        yield Spoken(
            one, said, frozenset(paragraphs[one.block]), frozenset(whole.words[place].heading), place,
            one.block in whole.asides, frozenset(opens if n else (*whole.anchor, *whole.title, *opens)),
        )  # fmt: skip
