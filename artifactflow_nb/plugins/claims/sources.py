"""A source as the checker reads it: sentences with their figures, found by the words that a claim shares with them."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from operator import attrgetter

from artifactflow_nb.plugins.claims.figures import Figure, read_figures
from artifactflow_nb.plugins.claims.language import terms
from artifactflow_nb.plugins.claims.prose import sentences, text_without_markup

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n|\f")
_SPACE = re.compile(r"\s+")
_QUOTATION_MARKS = str.maketrans("“”„‟«»「」『』‘’‚'", '"' * 14, "[]`")
_SIGNS_OF_LETTERS = re.compile(r"[\u0300-\u036f\u00ad\u200b-\u200f\ufeff]")
_DASHES = str.maketrans("–—−‐‑", "-----")
_MOST_CHARACTERS = 2_000_000
_COMMON_SHARE = 0.2
_FEW_SENTENCES = 10


def normalized(text: str) -> str:
    """Return a text without differences of white space, quotation marks, width, accents, dashes, hyphens and case."""
    text = re.sub(r"(?<=[a-z])-\n\s*(?=[a-z])", "", text)
    text = unicodedata.normalize("NFKD", re.sub(r"(?<=\d)(?=[⁰¹²³⁴-⁹⁻])", "^", text))
    text = _SIGNS_OF_LETTERS.sub("", text).translate(_QUOTATION_MARKS).translate(_DASHES)
    text = _SPACE.sub(" ", text).strip().casefold()
    text = re.sub(r"(?<=\w) ?- ?(?=[^\W\d])| (?=[.,;:!?%)])", lambda match: "-" if "-" in match[0] else "", text)
    return re.sub(r"(?<=[\u3400-\u9fff]) | (?=[\u3400-\u9fff])", "", text)


@dataclass(frozen=True)
class Sentence:
    """A sentence of a source, with its place in the source and the number of its paragraph."""

    text: str
    start: int
    paragraph: int

    @cached_property
    def terms(self) -> list[str]:
        """The content of the sentence in order."""
        return terms(self.text)

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        """The figures of the sentence."""
        return read_figures(self.text)


@dataclass(frozen=True)
class Source:
    """A text that claims cite, with its address; places of passages are places in the text."""

    text: str
    address: str = ""

    @cached_property
    def sentences(self) -> list[Sentence]:
        """The sentences, lines of tables among them; lines that a page broke are joined."""
        text = text_without_markup(self.text[:_MOST_CHARACTERS])
        cuts = [0, *(match.end() for match in _PARAGRAPH.finditer(text)), len(text)]
        return [
            Sentence(text[place + start : place + end], place + start, paragraph)
            for paragraph, (place, stop) in enumerate(pairwise(cuts))
            for start, end in sentences(text[place:stop])
        ]

    @cached_property
    def figures(self) -> list[Figure]:
        """The figures of all sentences."""
        return [figure for sentence in self.sentences for figure in sentence.figures]

    @cached_property
    def flat(self) -> str:
        """The normalised text, in which quotes are searched."""
        return normalized(text_without_markup(self.text))

    @cached_property
    def _index(self) -> dict[str, list[int]]:
        index: dict[str, list[int]] = {}
        for number, sentence in enumerate(self.sentences):
            for term in set(sentence.terms):
                index.setdefault(term, []).append(number)
        return index

    def weight(self, term: str) -> float:
        """Return how rare a term is in the source."""
        return math.log(1 + len(self.sentences) / (1 + len(self._index.get(term, ())))) + 0.1

    def candidates(self, wanted: Sequence[str], limit: int = 6) -> list[tuple[float, Sentence]]:
        """Return the sentences that share most with these terms, each with the shared part of the weight."""
        unique = dict.fromkeys(wanted)
        total = sum(map(self.weight, unique)) or 1.0
        scores: Counter[int] = Counter()
        most = max(_FEW_SENTENCES, len(self.sentences) * _COMMON_SHARE)
        for term in sorted(unique, key=self.weight, reverse=True):
            numbers = self._index.get(term, ())
            weight = self.weight(term)
            for number in numbers if len(numbers) <= most else [n for n in numbers if n in scores]:
                scores[number] += weight  # type: ignore[assignment]  # counters of floats work
        best = scores.most_common(limit)
        return [(score / total, self.sentences[number]) for number, score in best]

    @cached_property
    def paragraphs(self) -> dict[int, list[Sentence]]:
        """The sentences of each paragraph."""
        return {number: list(group) for number, group in groupby(self.sentences, attrgetter("paragraph"))}
