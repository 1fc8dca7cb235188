"""The values that a figure of the prose can be, and the value that its labels say the figure should be."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from typing import Any

from artifactflow_nb.plugins.claims.figures import Figure, agrees
from artifactflow_nb.plugins.claims.language import lists, pattern_of, phrase_pattern, terms, units
from artifactflow_nb.plugins.claims.prose import Claim, clauses
from artifactflow_nb.plugins.claims.values import Place, Value

_MIN_PREFIX = 3
_CERTAIN_DIGITS = 4
_DERIVED_DIGITS = 2
_MOST_EXTRAS = 3  # Pairs of Chinese characters that a clause may have beside the labels; words are not cut there
_MOST_ROWS = 12
_LARGEST_RATIO = 20.0
_LONG_COLUMN = 3


@dataclass(frozen=True, slots=True)
class Match:
    """The value that a figure is (supported) or should be (differs): its text or expression, and its place."""

    status: str
    value: str
    place: Place


class Context:
    """A claim with its terms, for comparison with labels."""

    def __init__(self, claim: Claim, figures: Sequence[Figure]) -> None:
        self.claim = claim
        self.text = claim.text
        self.figures = [figure for figure in figures if figure.kind != "name"]
        synonyms = lists()["synonyms"]
        everything = [*terms(self.text), *terms(claim.label), *terms(claim.heading)]
        self.terms = {synonyms.get(term, term) for term in everything} | set(everything)
        short = re.findall(r"(?<![^\W_])[^\W_]{1,2}(?![^\W_])|\b\d{4}\b", f"{self.text} {claim.label}")
        self.terms |= {synonyms.get(word.lower(), word.lower()) for word in short}

    def has(self, term: str) -> bool:
        """Return whether the claim has a term of a label, or an abbreviation of the term."""
        if term in self.terms:
            return True
        if len(term) < _MIN_PREFIX:
            return False
        return any(len(word) >= _MIN_PREFIX and (word.startswith(term) or term.startswith(word)) for word in self.terms)

    def known(self, labels: Sequence[str]) -> frozenset[str]:
        """Return the terms that the claim has among the terms of labels, which are in alphabetical order."""
        found: set[str] = set()
        for word in self.terms:
            found.update(labels[bisect_left(labels, word) : bisect_left(labels, f"{word}\U0010ffff")])
            found.update(word[:end] for end in range(_MIN_PREFIX, len(word)))
        return frozenset(filter(self.has, found))

    def overlap(self, value: Value) -> int:
        """Return how many terms of a value's labels the claim has."""
        return sum(map(self.has, value.labels))

    def place_of(self, label: str, found: Iterable[str]) -> int | None:
        """Return where a label ends in the claim; None if a part of the label is missing in the claim."""
        literal = rf"(?<![^\W_]){re.escape(label)}(?![^\W_])"
        if label and label in self.text and (match := re.search(literal, self.text)):
            return None if label == "A" and not self.text[: match.start()].strip() else match.end()
        required = [term for term in found if not term.isdigit() or term in self.text]
        if not required or not all(map(self.has, required)):
            return None
        ends = [self.end_of(term) for term in required]
        return None if None in ends else max(end for end in ends if end is not None)

    def end_of(self, term: str) -> int | None:
        """Return where a term or a synonym first ends in the claim."""
        names = [term, *(word for word, other in lists()["synonyms"].items() if other == term)]
        for name in names:
            pattern = rf"(?<![^\W_]){re.escape(name)}" if name.isascii() else re.escape(name)
            for match in re.finditer(pattern, self.text, re.IGNORECASE):
                if len(name) >= _MIN_PREFIX or not re.match(r"[^\W_]", self.text[match.end() : match.end() + 1]):
                    return match.end()
        return None

    @cached_property
    def hints(self) -> set[str]:
        """The expressions of one step that words of the claim name, such as difference or sum."""
        kinds = lists()["hints"].items()
        return {kind for kind, words in kinds if pattern_of(tuple(words)).search(self.text)}

    @property
    def is_compared(self) -> bool:
        """Whether the claim is about a difference or several things in turn, so that a label is in doubt."""
        is_derived = bool(self.hints & {"difference", "change", "sum"})
        return is_derived or bool(phrase_pattern("respectively").search(self.text))


class ValueIndex:
    """All values, found by their size."""

    def __init__(self, values: Iterable[Value]) -> None:
        self.values = list(values)
        numbers = [value for value in self.values if value.figure.kind in {"number", "year"}]
        self._numbers = sorted(numbers, key=lambda value: abs(value.figure.value))
        self._sizes = [abs(value.figure.value) for value in self._numbers]
        self._others = [value for value in self.values if value.figure.kind not in {"number", "year"}]

    def equal(self, figure: Figure, context: Context) -> list[Value]:
        """Return the values that a figure can be, converted and rounded."""
        if figure.kind in {"date", "time"}:
            return [value for value in self._others if agrees(figure, value.figure)]
        values: dict[int, Value] = {}
        half = figure.tolerance / figure.factor
        factors = [(1.0, False), (0.01, False)] if figure.dimension == "percent" else [(1.0, False)]
        if figure.dimension not in {"", "percent"}:
            others = {factor for dimension, factor in units().values() if dimension == figure.dimension}
            factors += [(figure.factor / other, True) for other in others if other != figure.factor]
        for factor, is_conversion in factors:
            low, high = (abs(figure.value) - half) * factor, (abs(figure.value) + half) * factor
            slack = 1e-9 * abs(high)
            first, last = bisect_left(self._sizes, low - slack), bisect_right(self._sizes, high + slack)
            for value in self._numbers[first:last]:
                other = value.figure
                is_other = other.measure and figure.measure and other.measure != figure.measure
                is_unit = other.measure and not agrees(figure, other) and figure.measure == other.measure
                is_loose = is_conversion and not other.measure and not context.overlap(value)
                is_signed = figure.value * other.value < 0 and not context.is_compared
                if not (is_other or is_unit or is_loose or is_signed):
                    values[id(value)] = value
        return list(values.values())

    def match(self, figure: Figure, context: Context) -> Match | None:
        """Return the value that a figure is or should be; None if no value fits."""
        equal = sorted(self.equal(figure, context), key=context.overlap, reverse=True)
        best = equal[0] if equal else None
        if best is not None and best.labels and all(map(context.has, best.labels)):
            return Match("supported", best.figure.text, best.place)
        bound = self._bound(figure, context)
        if bound is not None:
            return Match("differs", bound.figure.text, bound.place)
        least = _DERIVED_DIGITS if best is None or not best.labels else _CERTAIN_DIGITS
        if best is not None and (context.overlap(best) or _digits(figure) >= least):
            return Match("supported", best.figure.text, best.place)
        return self.derived(figure, context)

    def _bound(self, figure: Figure, context: Context) -> Value | None:
        """Return the value whose labels name this figure beyond doubt, if the value differs from the figure."""
        if context.is_compared or figure.is_about or figure.kind == "year" or figure.is_spread or figure.is_word:
            return None
        years = {str(other.date[0]) for other in context.figures if other.kind == "year" and figure.kind == "number"}
        by_size: dict[float, Value] = {}
        known = context.known(self._terms)
        groups = [group.get(term, ()) for term in sorted(known) for group in (self._by_row, self._by_column)]
        for value in {id(value): value for group in groups for value in group}.values():
            if known.isdisjoint(value.column) or years - value.labels or not is_comparable(figure, value.figure):
                continue
            if (end := self.label_end(value, context)) is None:
                continue
            if any(agrees(other, value.figure) or agrees(value.figure, other) for other in context.figures):
                continue
            alike = [other for other in context.figures if other.kind == figure.kind]
            preceding = [other for other in alike if other.end <= end]
            if figure is next((other for other in alike if other.start >= end), next(iter(preceding[::-1]), None)):
                by_size[value.figure.base] = value
        if len(by_size) != 1 or has_extras(next(iter(by_size.values())), figure, context):
            return None
        return next(iter(by_size.values()))

    @cached_property
    def _terms(self) -> list[str]:
        return sorted(frozenset().union(*{terms for value in self.values for terms in (value.row, value.column)}))

    @cached_property
    def _by_column(self) -> dict[str, list[Value]]:
        """The values whose row has no name, by the terms of the column."""
        values = (each for each in self.values if each.table < 0 or all(map(str.isdigit, each.row)))
        return _grouped((term, value) for value in values for term in value.column)

    @cached_property
    def _by_row(self) -> dict[str, list[Value]]:
        return _grouped((term, value) for value in self.values if value.table >= 0 for term in value.row)

    def label_end(self, value: Value, context: Context) -> int | None:
        """Return where the labels of a value end in the claim; None if a label is missing."""
        label, place = context.claim.label, value.place
        if value.table >= 0:
            if label and place.row:  # a cell of a table of the prose: its heads are the labels
                return 0 if label.strip().lower() == f"{place.row} | {place.column}".lower() else None
            row = context.place_of(place.row, value.row) if place.row else None
            column = context.place_of(place.column, value.column)
            return None if row is None or column is None else max(row, column)
        if not value.name or label:
            return None
        exact = context.place_of(value.name, ()) if len(value.name) >= _MIN_PREFIX else None
        is_long = len(value.column) >= 2  # noqa: PLR2004 - "mean" alone names nothing
        end = exact if exact is not None else context.place_of("", value.column) if is_long else None
        if end is None or (value.row and not all(map(context.has, value.row))):
            return None
        return end

    def derived(self, figure: Figure, context: Context) -> Match | None:
        """Return the one expression of one step that gives a figure; None for no expression or several."""
        if _digits(figure) < _DERIVED_DIGITS or figure.kind != "number":
            return None
        matches: dict[str, Match] = {}
        known = context.known(self._terms) if context.hints else frozenset()
        rows = {id(value): value for term in known for value in self._by_row.get(term, ()) if value.row <= known}
        numbers = (value for value in rows.values() if value.figure.kind == "number")
        named = _grouped(((value.table, value.place.column), value) for value in numbers)
        for key, (column, total) in self._columns.items():
            column_named = bool(column[0].column) and column[0].column <= known
            if not column_named and key not in named:
                continue
            expressions = one_step_expressions(named.get(key, ())[:_MOST_ROWS], column * column_named, total, context)
            for expression, result, step in expressions:
                size = figure.value / (100 if figure.dimension == "percent" and expression[1] == "/" else 1)
                half = figure.step / (200 if size != figure.value else 2)
                if abs(abs(result) - abs(size)) <= half * (1 + 1e-6) + step:
                    matches[expression[0]] = Match("supported", expression[0], column[0].place)
        return next(iter(matches.values())) if len(matches) == 1 else None

    @cached_property
    def _columns(self) -> dict[tuple[int, str], tuple[list[Value], float]]:
        numbers = (value for value in self.values if value.table >= 0 and value.figure.kind == "number")
        columns = _grouped(((value.table, value.place.column), value) for value in numbers)
        return {key: (group, sum(v.figure.value for v in group)) for key, group in columns.items() if len(group) > 1}


def _grouped(pairs: Iterable[tuple[Any, Value]]) -> dict[Any, list[Value]]:
    groups: dict[Any, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _digits(figure: Figure) -> int:
    digits = re.sub(r"\D", "", re.split(r"[eE×x]", figure.text)[0]).strip("0")
    return len(digits) if not figure.is_word else 1


def is_comparable(figure: Figure, other: Figure) -> bool:
    """Return whether two figures can be the same thing: kind, dimension and size."""
    if figure.kind != other.kind or (figure.measure and other.measure and figure.measure != other.measure):
        return False
    if figure.kind != "number" or 0 in {figure.value, other.value}:
        return True
    values = [abs(figure.value / other.value)]
    if figure.dimension == "percent" and not other.measure:
        values.append(abs(figure.value / other.value) / 100)
    if figure.measure and figure.measure == other.measure:
        values.append(abs(figure.base / other.base))
    return any(1 / _LARGEST_RATIO <= ratio <= _LARGEST_RATIO for ratio in values)


def has_extras(value: Value, figure: Figure, context: Context) -> bool:
    """Return whether the clause says more about the figure than the labels do, so that the label is in doubt."""
    text = context.text
    clause = next((text[a:b] for a, b in clauses(text) if a <= figure.start < b), text).replace(figure.text, " ")
    synonyms, generic = lists()["synonyms"], {*lists()["generic"]}
    labels = value.labels | set(terms(value.place.row)) | set(terms(value.place.column))
    beginnings = tuple(label[:4] for label in labels if len(label) > _LONG_COLUMN)
    rest = [each for each in terms(clause) if synonyms.get(each, each) not in labels and each not in generic]
    rest = [term for term in rest if not term.startswith(beginnings)]
    if figure.noun and figure.noun not in value.column and not figure.measure:
        return True
    names = re.findall(r"(?<!^)(?<![.!?] )\b[A-Z]\w*", clause.strip())
    is_named = any(name.lower() not in f"{value.place.row} {value.place.column} {value.name}".lower() for name in names)
    return is_named or len(rest) > (0 if clause.isascii() else _MOST_EXTRAS)


def one_step_expressions(
    named: Sequence[Value], column: Sequence[Value], total: float, context: Context
) -> Iterator[tuple[tuple[str, str], float, float]]:
    """Yield the expressions of one step whose words the claim has: the text and operator, the result, its precision."""
    hints, figures = context.hints, [each.figure for each in named]
    for a, b in combinations(figures, 2) if "difference" in hints else ():
        yield (f"{a.text} - {b.text}", "-"), a.value - b.value, (a.step + b.step) / 2
    for a, b in permutations(figures, 2):
        if "ratio" in hints and b.value:
            yield (f"{a.text} / {b.text}", ":"), a.value / b.value, 0.0
        if "change" in hints and b.value:
            yield (f"({a.text} - {b.text}) / {b.text}", "/"), (a.value - b.value) / abs(b.value), 0.0
    name = column[0].place.column if column else ""
    if column and "sum" in hints:
        yield (f"sum of {name}", "+"), total, 0.0
    if column and "mean" in hints:
        yield (f"mean of {name}", "+"), total / len(column), 0.0
    for value in named if column and "share" in hints and total else ():
        yield (f"{value.figure.text} / sum of {name}", "/"), value.figure.value / total, 0.0
