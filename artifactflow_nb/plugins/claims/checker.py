"""`check`: what sources say about a claim, by fixed rules and without a model.

A verdict "contradicted" needs a sentence of a source that is about the same thing beyond doubt; likeness alone never
says "supported". What the rules leave open is "uncheckable".
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache

from artifactflow_nb.plugins.claims.figures import Figure, agrees, is_rounder, read_figures
from artifactflow_nb.plugins.claims.language import lists, phrase_pattern, terms
from artifactflow_nb.plugins.claims.prose import Claim, clauses, plain_text
from artifactflow_nb.plugins.claims.sources import Sentence, Source, normalized

_QUOTED = re.compile(r"(?<![\dA-Za-z])[“\"„«「『]([^“”\"„«»「」『』\n]{8,2000})[”\"»」』]")
_NEAR = 0.45  # the share of a claim's weight in a sentence from which the sentence is about the same thing
_SAME = 0.72  # the share from which the sentence says the same but for a detail
_MISQUOTE = 0.7
_QUOTE_WORDS = 3
_QUOTE_CHARACTERS = 6
_SHORT_VERBATIM = 12
_NAME = re.compile(r"(?<![.!?:“\"] )(?<!^)\b[A-Z][a-zé’-]+(?:\s+[A-Z][a-zé’-]+)*(?![\w_])")
_CJK = re.compile(r"[\u3400-\u9fff]")
_OMISSION = re.compile(r"\[[^\]\n]{0,200}\]|…|\.{3,}")
_NEW_SUBJECT = re.compile(r"[;；，]|(?:,|\b(?:and|while|whereas|but))\s+(?:(?:the|an?|its|their)\b|[A-Z])")
_CUT, _CLAUSE = chr(0x1401), chr(0x1402)
_FIRST_MARK = 0x1403  # letters that no text of these languages has stand for figures


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a source says about a claim: the rule, the passage, its place in the text, and its share of the claim."""

    status: str
    method: str = ""
    reason: str = ""
    quote: str = ""
    start: int = 0
    end: int = 0
    address: str = ""
    score: float = 0


def check(claim: str | Claim, sources: Sequence[Source | str]) -> Verdict:
    """Compare a claim with the sources that it cites."""
    if not sources:
        return Verdict("unsupported", reason="No source is cited.")
    claim = claim if isinstance(claim, Claim) else Claim(plain_text(claim), 0)
    texts = [source if isinstance(source, Source) else Source(source) for source in sources]
    verdicts = [_Comparison(claim, source).verdict() for source in texts if source.text.strip()]
    if not verdicts:
        return Verdict("unchecked", reason="The source has no text.")
    ranks = ("supported", "uncheckable", "contradicted", "unsupported")
    return min(verdicts, key=lambda verdict: ranks.index(verdict.status))


class _Comparison:
    """One claim beside one source."""

    def __init__(self, claim: Claim, source: Source) -> None:
        self.claim = claim
        self.text = claim.plain
        self.source = source
        self.figures = _counted(read_figures(self.text))
        self.terms = terms(_without(self.text, self.figures))
        self.candidates = source.candidates(self.terms)
        is_near = bool(self.candidates) and self.candidates[0][0] >= _NEAR
        self.best = self.candidates[0][1] if is_near else None  # the sentence that is about the same thing

    def verdict(self) -> Verdict:
        if found := self._quotes():
            return found
        flat = normalized(self.text).rstrip(".。!！;；")
        texts = [normalized(sentence.text).partition(flat) for _, sentence in self.candidates]
        around = [(before, f"{before} {after}") for before, found, after in texts if found]
        is_said = not around or any(not _is_doubtful(rest) and not _has_link(before) for before, rest in around)
        if len(flat) >= _SHORT_VERBATIM and is_said and self._place(flat) is not None:
            return self._at("supported", "words", "The source says it in these words.", self._sentence_with(flat))
        for rule in (self._slots, self._exchanges, self._figures, self._order, self._names):
            if found := rule():
                return found
        if self.best is None:
            return self._at("uncheckable", "", "No sentence of the source is about this.", None)
        if (sentence := self._extracted()) is not None:
            return self._at("supported", "words", "The source says it in these words, among others.", sentence)
        return self._at("uncheckable", "", "The wording is not the source's.", self.best)

    def _at(self, status: str, method: str, reason: str, sentence: Sentence | None) -> Verdict:
        if sentence is None:
            return Verdict(status, method, reason, address=self.source.address)
        quote = " ".join(self.source.text[sentence.start : sentence.start + len(sentence.text)].split())
        end = sentence.start + len(sentence.text)
        score = next((score for score, other in self.candidates if other is sentence), 1.0)
        return Verdict(status, method, reason, quote, sentence.start, end, self.source.address, min(score, 1.0))

    def _place(self, flat: str, start: int = 0) -> int | None:
        for match in re.compile(re.escape(flat)).finditer(self.source.flat, start):
            before = self.source.flat[max(match.start() - 2, 0) : match.start()]
            after = self.source.flat[match.end() : match.end() + 2]
            joins_before = flat[0].isalnum() and flat[0].isascii() and before[-1:].isalnum()
            joins_after = flat[-1].isalnum() and flat[-1].isascii() and re.match(r"[^\W_]|[.,]\d|%", after)
            if not joins_before and not joins_after and not re.search(r"\d[.,]$", before if flat[0].isdigit() else ""):
                return match.start()
        return None

    def _sentence_with(self, flat: str) -> Sentence | None:
        likely = [sentence for _, sentence in self.candidates]
        return next((each for each in likely if flat in normalized(each.text)), next(iter(likely), None))

    def _quotes(self) -> Verdict | None:
        is_block = self.claim.kind == "quote"
        quoted = [match[1] for match in _QUOTED.finditer(self.text)]
        long = [q for q in quoted if len(q.split()) >= _QUOTE_WORDS or len(_CJK.findall(q)) >= _QUOTE_CHARACTERS]
        long = [self.text] if is_block else long
        is_changed = False
        for quote in long:
            parts = _OMISSION.split(re.sub(r"\[(\w)\]", r"\1", quote))
            pieces = [piece for part in parts if (piece := normalized(part).strip('" .,;:'))]
            if all(self._place(piece) is not None for piece in pieces):
                is_changed |= bool(re.search(r"\[[^\]….]{2,}\]", quote)) or not self._is_in_order(pieces)
                continue
            near = self._nearest(quote)
            paragraph = self.source.paragraphs[near.paragraph] if near else ()
            if all(piece in normalized(plain_text(" ".join(each.text for each in paragraph))) for piece in pieces):
                is_changed = True  # only in code, whose signs a claim does not have
                continue
            if near is not None:
                return self._at("contradicted", "quotes", "The source has other words than the quote.", near)
            status = "contradicted" if is_block else "unsupported"
            return self._at(status, "quotes", "The quote is nowhere in the source.", None)
        if not long:
            return None
        rest = re.sub("|".join(map(re.escape, long)), " ", self.text)
        if not is_block and _counted(read_figures(rest)):
            return None
        sentence = self._sentence_with(normalized(long[0]))
        if is_changed:
            return self._at("uncheckable", "quotes", "The quote leaves out or adds words.", sentence)
        number = sentence.paragraph if sentence else 0
        around = [each.text for n in (-1, 0, 1) for each in self.source.paragraphs.get(number + n, ())]
        names = re.findall(r"(?<!^)\b[A-Z]\w+", rest.strip())
        is_named = all(normalized(name) in normalized(" ".join(around)) for name in names)
        if not is_block and (_is_doubtful(rest) or not is_named):
            return self._at("uncheckable", "quotes", "The quote is verbatim, the words around it are not.", sentence)
        return self._at("supported", "quotes", "The quote is verbatim.", sentence)

    def _is_in_order(self, pieces: Sequence[str]) -> bool:
        """Return whether the pieces of a quote follow one another without a negation or a doubt between them."""
        position = 0
        for number, piece in enumerate(pieces):
            found = self._place(piece, position)
            if found is None or (number and _is_doubtful(self.source.flat[position:found])):
                return False
            position = found + len(piece)
        return True

    def _nearest(self, quote: str) -> Sentence | None:
        content = _tokens(quote)
        for _, sentence in self.source.candidates(terms(quote), 3):
            matcher = SequenceMatcher(None, content, _tokens(sentence.text), autojunk=False)
            shared = sum(block.size for block in matcher.get_matching_blocks())
            if shared >= _MISQUOTE * len(content):
                return sentence
        return None

    def _slots(self) -> Verdict | None:
        for score, sentence in self.candidates[:2]:
            if score < _SAME or not self.figures:
                continue
            others = _counted(sentence.figures)
            mine, theirs = _slotted(self.text, self.figures), _slotted(sentence.text, others)
            places, slots = ([token.rstrip("0123456789") for token in each] for each in (mine, theirs))
            matcher = SequenceMatcher(None, places, slots, autojunk=False)
            blocks = matcher.get_matching_blocks()
            if sum(block.size for block in blocks) < _SAME * len(mine):
                continue
            pairs = [(mine[b.a + i], theirs[b.b + i]) for b in blocks for i in range(b.size)]
            for a, b in pairs:
                if not a[0] == b[0] == "\x00":
                    continue
                figure, other = self.figures[int(a[1:])], others[int(b[1:])]
                # A shorter claim may leave out the figure of this place and name a later figure.
                is_elsewhere = len(self.figures) < len(others) and any(agrees(figure, each) for each in others)
                if not is_elsewhere and (found := self._differs(figure, other, sentence)):
                    return found
        return None

    def _differs(self, figure: Figure, other: Figure, sentence: Sentence) -> Verdict | None:
        if agrees(figure, other) or is_rounder(other, figure):
            return None
        if figure.kind != other.kind and {figure.kind, other.kind} != {"date", "year"}:
            return None
        if figure.measure != other.measure and not (figure.measure and other.measure and figure.value == other.value):
            return None
        roles = {_role(self.text, figure), _role(sentence.text, other)} - {""}
        is_part = bool(other.measure and re.match(r" \d", sentence.text[other.end :]))
        if is_part or (figure.kind == "number" and len(roles) > 1):
            return None  # "by 5" beside "from 61", or the first part of "4 ft 8 in"
        reason = f"{other.text.strip()} there, not {figure.text.strip()}."
        return self._at("contradicted", "figures", reason, sentence)

    def _exchanges(self) -> Verdict | None:
        sentence = self.best
        if sentence is None or phrase_pattern("respectively").search(self.text + sentence.text):
            return None
        others = [figure for figure in sentence.figures if figure.kind == "number"]
        everything = set(self.terms)
        for figure in self.figures:
            same = [other for other in others if agrees(figure, other)]
            rivals = [other for other in others if other.measure == figure.measure and not agrees(figure, other)]
            if len(same) != 1 or not rivals:
                continue
            own = set(_clause_terms(self.text, figure))
            scope = own if len(self.figures) > 1 else everything
            source_order = _clause_terms(sentence.text, same[0])
            source_terms = set(source_order)
            for rival in rivals:
                theirs = set(_clause_terms(sentence.text, rival))
                only_source, only_rival = source_terms - theirs, theirs - source_terms
                is_taken = any(
                    agrees(mine, rival) and set(_clause_terms(self.text, mine)) & only_rival for mine in self.figures
                )
                is_other = only_source and not only_source & scope and only_rival & own
                is_subject = only_rival and only_rival <= own and source_order and source_order[0] not in scope
                if (is_other or is_subject) and not is_taken:
                    reason = f"{rival.text.strip()} there; {figure.text.strip()} is of something else."
                    return self._at("contradicted", "figures", reason, sentence)
        return None

    def _figures(self) -> Verdict | None:
        """Look for equal figures in the paragraphs of the best sentences, for other figures in the best sentence."""
        for figure in self.figures:
            near = [sentence for score, sentence in self.candidates[:3] if score >= _NEAR / 2]
            around = [each for sentence in near for each in self.source.paragraphs[sentence.paragraph]]
            if any(agrees(figure, other) for sentence in around for other in sentence.figures):
                continue
            if any(agrees(figure, other) for other in self.source.figures):
                return self._contradicted(figure, _SAME)
            if any(is_rounder(other, figure) for other in self.source.figures):
                continue
            reason = f"{figure.text.strip()} is nowhere in the source."
            return self._contradicted(figure) or self._at("unsupported", "figures", reason, self.best)
        return None

    def _contradicted(self, figure: Figure, least: float = _NEAR) -> Verdict | None:
        """Return a contradiction if the best sentence has exactly one figure of this kind, bound to the same words."""
        if not self.candidates or self.candidates[0][0] < least:
            return None
        sentence = self.candidates[0][1]
        if len(self.candidates) > 1 and self.candidates[1][0] > self.candidates[0][0] * 0.9 and least == _NEAR:
            return None
        own = set(_clause_terms(self.text, figure))
        rivals = [
            other
            for other in sentence.figures
            if other.kind == figure.kind
            and other.is_spread == figure.is_spread
            and other.measure == figure.measure
            and (figure.measure or figure.kind != "number" or other.noun == figure.noun)
            and not any(agrees(mine, other) for mine in self.figures if mine is not figure)
        ]
        if len(rivals) != 1 or not own & set(_clause_terms(sentence.text, rivals[0])):
            return None
        if figure.is_word and figure.value <= 3 and not figure.measure:  # noqa: PLR2004 - "two" is often no count
            return None
        return self._differs(figure, rivals[0], sentence)

    def _order(self) -> Verdict | None:
        """Find the two sides of "than", "before" or "because" exchanged, or a word replaced by its opposite."""
        for score, sentence in self.candidates[: self.best is not None]:
            if score >= _SAME and is_turned_round(self.text, sentence.text):
                return self._at("contradicted", "order", "The source has it the other way round.", sentence)
            mine, theirs = _words(self.text), _words(sentence.text)
            matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
            changes = [code for code in matcher.get_opcodes() if code[0] == "replace"]
            shared = sum(block.size for block in matcher.get_matching_blocks())
            if shared < len(mine) * _SAME or _is_negated(self.text) != _is_negated(sentence.text):
                continue
            for _, *where in changes:
                if (pair := _opposite_pair(mine, theirs, where)) is None:
                    continue
                exchanged = {*terms(pair[0]), *pair[0]}
                if all({term, *term} & exchanged or term in sentence.terms for term in self.terms):
                    return self._at("contradicted", "order", f"“{pair[1]}” there, not “{pair[0]}”.", sentence)
        return None

    def _names(self) -> Verdict | None:
        """Compare names in the same place of the same sentence; a name that is nowhere has no support."""
        for name in dict.fromkeys(match[0] for match in _NAME.finditer(self.text)):
            if normalized(name) in self.source.flat or len(name) < 3:  # noqa: PLR2004
                continue
            others = {match[0] for match in _NAME.finditer(self.source.text)}
            is_short = any("".join(re.findall(r"\b\w", a)) == b for o in others for a, b in ((name, o), (o, name)))
            if is_short or any(normalized(part) in self.source.flat for part in name.split()):
                continue
            around = _neighbours(self.text, name)
            for score, sentence in self.candidates[:1] if all(around) else ():
                for other in (match[0] for match in _NAME.finditer(sentence.text)):
                    is_slot = around == _neighbours(sentence.text, other)
                    if score >= _SAME * 0.8 and is_slot and other not in self.text:
                        return self._at("contradicted", "names", f"“{other}” there, not “{name}”.", sentence)
            return self._at("unsupported", "names", f"“{name}” is nowhere in the source.", self.best)
        return None

    def _extracted(self) -> Sentence | None:
        """Return a sentence with all words of the claim in order and the same negations; no other subject between."""
        skipped = {"the", "a", "an", *"约近"} if any(figure.is_about for figure in self.figures) else {"the", "a", "an"}
        firsts = [next(i for i, each in enumerate(self.figures) if agrees(each, other)) for other in self.figures]
        text = self.text
        for figure, first in reversed([*zip(self.figures, firsts, strict=True)]):
            text = f"{text[: figure.start]} {chr(_FIRST_MARK + first)} {text[figure.end :]}"
        mine = [word for word in _words(phrase_pattern("about").sub(" ", text)) if word not in skipped]
        for _, sentence in self.candidates[:3]:
            if _doubts(sentence.text) <= _doubts(self.text) and _is_negated(self.text) == _is_negated(sentence.text):
                theirs = [word for word in _words(self._marked(sentence)) if word not in skipped]
                position, before = 0, ""
                for number, word in enumerate(theirs):
                    next_word = mine[position : position + 1]
                    is_other = word == _CLAUSE and not {*theirs[number + 1 : number + 3]} & {*next_word}
                    if (word == _CUT or is_other) and 0 < position < len(mine):
                        break
                    before = "" if word in {_CUT, _CLAUSE} else before if position else f"{before} {word}"
                    position += word in next_word
                if mine and position == len(mine) and not _has_link(before.rpartition(mine[0])[0]):
                    return sentence
        return None

    def _marked(self, sentence: Sentence) -> str:
        """Return a sentence with a mark in place of each figure of the claim, and a cut in place of similar figures."""
        text = sentence.text
        for other in reversed(sentence.figures):
            role = _role(sentence.text, other)
            same = [i for i, each in enumerate(self.figures) if agrees(each, other) and _role(self.text, each) == role]
            if same or any(figure.measure == other.measure for figure in self.figures):
                text = f"{text[: other.start]} {chr(_FIRST_MARK + same[0]) if same else _CUT} {text[other.end :]}"
        return _NEW_SUBJECT.sub(lambda match: f" {_CUT if match[0].isascii() else _CLAUSE} {match[0]}", text)


def _counted(figures: Iterable[Figure]) -> list[Figure]:
    return [figure for figure in figures if figure.kind != "name"]


def _doubts(text: str) -> set[str]:
    return {match[0].lower() for match in phrase_pattern("doubts").finditer(text)}


def _is_doubtful(text: str) -> bool:
    return _is_negated(text) or bool(_doubts(text))


def _has_link(text: str) -> bool:
    """Return whether the last clause has a word such as "of", after which the next words are no subject."""
    return bool(phrase_pattern("links").search(re.split(r"[,;:]", text)[-1]))


def _role(text: str, figure: Figure) -> str:
    """Return the word before a figure that tells a change from its start and its end."""
    before = phrase_pattern("about").sub("", text[: figure.start]).rstrip(" $€£")
    return next((m[0].lower() for m in phrase_pattern("roles").finditer(before[-5:]) if before.endswith(m[0])), "")


def _tokens(text: str, pattern: str = r"\d[\d.,]*|[^\W\d_]+") -> list[str]:
    return [match[0].lower() for match in re.finditer(pattern, re.sub(r"([\u3400-\u9fff])", r" \1 ", text))]


def _without(text: str, figures: Sequence[Figure]) -> str:
    for figure in figures:
        text = text[: figure.start] + " " * (figure.end - figure.start) + text[figure.end :]
    return text


def _slotted(text: str, figures: Sequence[Figure]) -> list[str]:
    for number, figure in reversed(list(enumerate(figures))):
        text = f"{text[: figure.start]} \x00{number} {text[figure.end :]}"
    return [match[0].lower() for match in re.finditer(r"\x00\d+|[^\W\d_]+(?:['’-][^\W\d_]+)*", text)]


def _words(text: str) -> list[str]:
    return _tokens(_without(text, _counted(read_figures(text))), r"[^\W_]+(?:['’-][^\W_]+)*")


def _clause_terms(text: str, figure: Figure) -> list[str]:
    for start, end in clauses(text):
        if start <= figure.start < end:
            rest = text[start : figure.start] + " " + text[min(figure.end, end) : end]
            return terms(_without(rest, read_figures(rest)))
    return []


def _is_negated(text: str) -> bool:
    rest = phrase_pattern("no_negations").sub(" ", text)
    return bool(phrase_pattern("negations").search(rest)) or "n't" in rest.replace("’", "'")


def _sides(text: str) -> Iterator[tuple[str, frozenset[str], frozenset[str]]]:
    for match in phrase_pattern("order").finditer(text):
        yield match[0].lower(), frozenset(terms(text[: match.start()])), frozenset(terms(text[match.end() :]))


def is_turned_round(text: str, other: str) -> bool:
    """Return whether two texts have the same sides around a word such as "than", exchanged."""
    mine, theirs = set(_words(text)), set(_words(other))
    if any(a in mine and b in theirs - mine for a, b in opposites()):
        return False
    for word, left, right in _sides(text):
        for other_word, other_left, other_right in _sides(other):
            if (f"{word} by" in text.lower()) != (f"{other_word} by" in other.lower()):
                continue
            own = left - right, right - left
            others = other_left - other_right, other_right - other_left
            is_moved = own[0] & others[1] and own[1] & others[0] and not own[1] & others[1]
            is_same_verb = bool(own[0] & others[0]) or word != "than"
            if word == other_word and is_moved and is_same_verb and _is_negated(text) == _is_negated(other):
                return True
    return False


@cache
def opposites() -> frozenset[tuple[str, str]]:
    """Return the pairs of opposites, each in both orders."""
    return frozenset(pair for a, b in lists()["opposites"] for pair in ((a, b), (b, a)))


def _opposite_pair(mine: list[str], theirs: list[str], place: Sequence[int]) -> tuple[str, str] | None:
    """Return opposites at a place: words, or two Chinese characters of which one may be the same."""
    a, b, c, d = place
    starts = [(max(i, 0), max(j, 0)) for i in (a - 1, a) for j in (c - 1, c)]
    pairs = [(mine[a:b], theirs[c:d]), *((mine[i : i + 2], theirs[j : j + 2]) for i, j in starts)]
    return next((pair for x, y in pairs if (pair := ("".join(x), "".join(y))) in opposites()), None)


def _neighbours(text: str, name: str) -> tuple[str, str]:
    before, _, after = text.partition(name)
    return next(iter(_words(before)[::-1]), ""), next(iter(_words(after)), "")
