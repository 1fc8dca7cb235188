"""Figures: numbers, dates and times of a text, with unit and precision; no reader reads what another has read."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from artifactflow_nb.plugins.claims.language import CJK, alternatives, lists, phrase_pattern, terms, units, words_in

ABOUT = 0.06  # the relative deviation that "about" allows
_CONTEXT = 24
_LONGEST_TEXT = 20_000
_ROUND_DIGITS = 2
_NOON = 12
_THOUSAND = 1000
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺−", "0123456789-+-")
_CJK_DIGITS = {**{c: i for i, c in enumerate("零一二三四五六七八九")}, "〇": 0, "两": 2}
_CJK_TENS = {"十": 10, "百": 100, "千": 1000}
_CJK_MYRIADS = {"万": 10_000, "亿": 100_000_000}
_SPACES = "\u00a0\u202f\u2009\u2007"

_TIME = re.compile(r"(?<![\d:])(\d{1,2}):(\d{2})(?::(\d{2}))?(?![\d:])\s*([ap]\.?m\b\.?)?", re.IGNORECASE)
_CJK_TIME = re.compile(r"(上午|下午|晚上|早上|凌晨)?(\d{1,2})[点时](?:(\d{1,2})分|整|(?![\d个小]))")
_VERSION = re.compile(
    r"\bv?\d+(?:\.\d+){2,}\w*|\bv\d+(?:\.\d+)*\b|(?<![\d.])\d+\.\d+\.?\d*(?:rc|a|b|dev|post)\d+", re.IGNORECASE
)
_IN_PERCENT = re.compile(r"百分之(?:(\d+(?:\.\d+)?)|([零〇一二两三四五六七八九十百]+(?:点[零〇一二三四五六七八九]+)?))")
_TENTHS = re.compile(r"(?<![一二三四五六七八九十])([一二两三四五六七八九])成(?![为立功员本果分长就熟交人])")
_SCIENTIFIC = re.compile(
    r"(?<![\w.])([-−]?\d+(?:\.\d+)?)(?:\s*(?:[×x·*]|\\times|\\cdot)\s*10\s*(?:\^\s*\{?\s*([-−+]?\d+)\s*\}?|([⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+))"
    r"|[eE]([-+]?\d+)(?![\w.]))"
)
_MYRIADS = re.compile(r"(?<![\d.,])(\d[\d,]{0,20})\s?亿\s?(\d[\d,]{0,20}(?:\.(\d{1,9}))?)\s?(?=万)")
_NUMBER = re.compile(
    r"(?<![A-Za-z_\d])(?<!\d[.,:/])(?P<sign>(?<![\w\d)\]%])[-−–](?=[\d$€£.]))?(?P<currency>US\$|[$€£¥￥]\s?)?"
    r"(?P<digits>"
    r"\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?(?!\d)"
    r"|\d{1,3}(?:\.\d{3})+,\d+(?!\d)"
    rf"|\d{{1,3}}(?:[{_SPACES}'’_]\d{{3}})+(?:[.]\d+)?(?![\d{_SPACES}])"
    r"|\d{1,3}(?: \d{3})+(?:\.\d+)?(?![\d.])(?! \d{3}\b)"
    r"|\d+\.\d+|\.\d+|\d+)"
)
_CJK_NUMBER = re.compile(r"[零〇一二两三四五六七八九十百千万亿]+(?:点[零〇一二三四五六七八九]+)?")
_RANGE_JOIN = re.compile(r"\s*(?:-|–|—|~|～|to|至|到|±|\+/-|or|through)\s*")
_BETWEEN_JOIN = re.compile(r"\s*and\s*")
_SPREAD_JOIN = re.compile(r"\s*(?:±|\+/-|\\pm)\s*$")


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a text.

    `value` is in the unit, in days for a date, in seconds for a time of day; `step` is the value of the last digit.
    `kind` is number, date, year, time, or name for an identifier such as in "cast 3". `dimension` is the quantity of
    the unit, empty for a count; `factor` converts to base units; `noun` is the word behind a number without a unit;
    `date` has year, month and day or None. `is_spread` marks a figure behind ±, `is_word` a figure in words.
    """

    text: str
    start: int
    end: int
    value: float
    step: float = 1
    kind: str = "number"
    dimension: str = ""
    factor: float = 1
    noun: str = ""
    date: tuple[int | None, int | None, int | None] = (None, None, None)
    is_about: bool = False
    is_spread: bool = False
    is_word: bool = False

    @property
    def base(self) -> float:
        """The value in base units; degrees Fahrenheit and kelvins as degrees Celsius."""
        if self.dimension == "fahrenheit":
            return (self.value - 32) / 1.8
        return self.value - 273.15 if self.dimension == "kelvin" else self.value * self.factor

    @property
    def measure(self) -> str:
        """The dimension, the same for all units of temperature."""
        return "temperature" if self.dimension in {"fahrenheit", "kelvin"} else self.dimension

    @property
    def tolerance(self) -> float:
        """Half of the last digit in base units, or the tolerance of "about"."""
        factor = 1 / 1.8 if self.dimension == "fahrenheit" else self.factor
        half = self.step * factor / 2
        return max(half, abs(self.base) * ABOUT) if self.is_about else half


def agrees(figure: Figure, other: Figure) -> bool:
    """Return whether two figures are equal at the rounding of the first figure, with units converted."""
    if "date" in {figure.kind, other.kind} or figure.kind == other.kind == "year":
        pairs = [(a, b) for a, b in zip(figure.date, other.date, strict=True) if a is not None and b is not None]
        return bool(pairs) and all(a == b for a, b in pairs)
    if figure.kind != other.kind or figure.measure != other.measure:
        return False
    slack = 1e-9 * max(abs(figure.base), abs(other.base))
    return abs(figure.base - other.base) <= figure.tolerance + slack


def is_rounder(other: Figure, figure: Figure) -> bool:
    """Return whether another figure says the same less precisely."""
    is_same = (other.kind, other.measure) == (figure.kind, figure.measure)
    return is_same and abs(figure.base - other.base) <= other.tolerance * (1 + 1e-9)


def _chinese_number(text: str) -> float:
    whole, _, fraction = text.partition("点")
    value = float("0." + "".join(str(_CJK_DIGITS[c]) for c in fraction) + "0")
    if not set(whole) & {*_CJK_TENS, *_CJK_MYRIADS}:
        return value + float("".join(str(_CJK_DIGITS[c]) for c in whole) or 0)
    total = section = digit = 0
    for char in whole:
        if char in _CJK_DIGITS:
            digit = _CJK_DIGITS[char]
        elif char in _CJK_TENS:
            section, digit = section + (digit or 1) * _CJK_TENS[char], 0
        else:
            total, section, digit = (total + section + digit or 1) * _CJK_MYRIADS[char], 0, 0
    return value + total + section + digit


def read_figures(text: str) -> tuple[Figure, ...]:
    """Return the figures of a text in order; identifiers are figures of the kind name."""
    text = text[:_LONGEST_TEXT]
    figures: list[Figure] = []
    rest = text
    for reader in (_dates, _names, _times, _percentages, _scientific, _numbers, _number_words, _chinese_numbers):
        for figure in reader(rest, text):
            figures.append(figure)
            rest = _without(rest, figure)
    figures.sort(key=lambda figure: figure.start)
    return tuple(with_context(figures, text))


def _without(text: str, figure: Figure) -> str:
    return text[: figure.start] + "\x00" * (figure.end - figure.start) + text[figure.end :]


def _part(text: str | None) -> int | None:
    """Return a part of a date: digits, Chinese digits or the name of a month."""
    if not text or text.isdigit():
        return int(text) if text else None
    months = [name[:3] for name in lists()["months"]]
    return months.index(text[:3].lower()) + 1 if text.isascii() else int(_chinese_number(text))


def _dates(rest: str, _text: str) -> Iterator[Figure]:
    for pattern in date_patterns():
        for match in pattern.finditer(rest):
            month = _part(match["m"])
            date = (_part(match["y"]), month, _part(match["d"]))
            if (month or 1) <= 12 and (date[2] or 1) <= 31:  # noqa: PLR2004 - the calendar
                written = match[0].rstrip()
                kind = "year" if month is None else "date"
                days = (date[0] or 0) * 372 + (month or 1) * 31 + (date[2] or 1)
                figure = Figure(written, match.start(), match.start() + len(written), days, 0, kind, date=date)
                rest = _without(rest, figure)
                yield figure


@cache
def date_patterns() -> tuple[re.Pattern[str], ...]:
    """Return the patterns of dates, with the names of the months."""
    names = "|".join(f"{name[:3]}(?:{name[3:]})?" for name in lists()["months"])
    return tuple(re.compile(form.replace("{months}", names), re.IGNORECASE) for form in lists()["dates"])


def _names(rest: str, _text: str) -> Iterator[Figure]:
    for match in _VERSION.finditer(rest):
        yield Figure(match[0], match.start(), match.end(), 0, kind="name")


def _times(rest: str, _text: str) -> Iterator[Figure]:
    for match in _TIME.finditer(rest):
        hours, minutes, seconds = int(match[1]), int(match[2]), int(match[3] or 0)
        if match[4]:
            hours = hours % _NOON + (_NOON if match[4].lower().startswith("p") else 0)
        value = hours * 3600 + minutes * 60 + seconds
        yield Figure(match[0].strip(), match.start(), match.start() + len(match[0].rstrip()), value, 60, "time")
    for match in _CJK_TIME.finditer(rest):
        hours = int(match[2]) + (_NOON if match[1] in {"下午", "晚上"} and int(match[2]) < _NOON else 0)
        yield Figure(match[0], match.start(), match.end(), hours * 3600 + int(match[3] or 0) * 60, 60, "time")


def _percentages(rest: str, _text: str) -> Iterator[Figure]:
    for match in _IN_PERCENT.finditer(rest):
        value = float(match[1]) if match[1] else _chinese_number(match[2])
        digits = len((match[1] or "").partition(".")[2] or (match[2] or "").partition("点")[2])
        yield Figure(match[0], match.start(), match.end(), value, 10.0**-digits, dimension="percent")
    for match in _TENTHS.finditer(rest):
        yield Figure(match[0], match.start(), match.end(), _CJK_DIGITS[match[1]] * 10, 10, dimension="percent")


def _scientific(rest: str, text: str) -> Iterator[Figure]:
    for match in _SCIENTIFIC.finditer(rest):
        mantissa = match[1].translate(_SUPERSCRIPTS)
        exponent = int((match[2] or match[3] or match[4]).translate(_SUPERSCRIPTS))
        step = 10.0 ** (exponent - len(mantissa.partition(".")[2]))
        if abs(exponent) < 300:  # noqa: PLR2004 - what a float can hold
            yield _with_unit(Figure(match[0], match.start(), match.end(), float(f"{mantissa}e{exponent}"), step), text)


def _numbers(rest: str, text: str) -> Iterator[Figure]:
    for match in _MYRIADS.finditer(rest):
        value = float(match[1].replace(",", "")) * 10_000 + float(match[2].replace(",", ""))
        step = 10.0 ** -len(match[3] or "")
        yield (figure := _with_unit(Figure(match[0], match.start(), match.end(), value, step), text))
        rest = _without(rest, figure)
    for match in _NUMBER.finditer(rest):
        digits = match["digits"]
        if re.fullmatch(r"\d{1,3}(?:\.\d{3})+,\d+", digits):
            digits = digits.replace(".", "").replace(",", ".")
        digits = re.sub(rf"[,'’_ {_SPACES}]", "", digits)
        if len(digits) > 300:  # noqa: PLR2004 - what a float can hold
            continue
        whole, _, fraction = digits.partition(".")
        step = 10.0 ** -len(fraction)
        zeros = len(whole) - len(whole.rstrip("0"))
        if not fraction and zeros and len(whole) - zeros >= _ROUND_DIGITS:
            step = 10.0**zeros
        value = float(digits) * (-1 if match["sign"] else 1)
        figure = Figure(match[0], match.start(), match.end(), value, step)
        tail = text[figure.end : figure.end + _CONTEXT]
        if match["currency"]:
            figure = replace(figure, dimension=units()[lists()["prefixes"][match["currency"].strip()]][0])
        figure = _with_unit(figure, text)
        is_plain = figure.end == match.end() and not match["currency"]
        if is_plain and (re.match("[A-Za-z]", tail) or is_identifier(text, match.start(), digits)):
            figure = replace(figure, kind="name")
        elif is_plain and is_year(match[0], text, figure):
            figure = replace(figure, kind="year", date=(int(digits), None, None))
        yield figure


@cache
def unit_pattern() -> re.Pattern[str]:
    """Return a pattern for the multiplier and the unit behind a number."""
    is_sign = {unit: len(unit) <= len("kWh") or "/" in unit or not unit.isascii() for unit in units()}
    ordered = sorted(units(), key=len, reverse=True)
    end = r"(?![A-Za-z\d²³/])"
    sign = "|".join(re.escape(unit) + end * bool(re.search("[A-Za-z]$", unit)) for unit in ordered if is_sign[unit])
    name = "|".join(re.escape(unit) for unit in ordered if not is_sign[unit])
    scale = alternatives(lists()["multipliers"])
    return re.compile(
        rf"(?:[ \u00a0\u202f]?(?P<scale>{scale})|(?P<letter>[MBk](?![A-Za-z])))?"
        rf"(?:[ \u00a0\u202f-]|\\,|\s(?:of\s)?)?(?P<unit>{sign}|(?i:{name})(?![A-Za-z]))?"
    )


def _with_unit(figure: Figure, text: str) -> Figure:
    match = unit_pattern().match(text, figure.end)
    if match is None or not (match["scale"] or match["letter"] or match["unit"]):
        return figure
    scale, factor = 1.0, figure.factor
    if match["letter"]:
        scale = {"M": 1e6, "B": 1e9, "k": 1e3}[match["letter"]]
    elif match["scale"]:
        scale = lists()["multipliers"][match["scale"].lower()]
    end, dimension = max(match.end("letter"), match.end("scale"), match.end("unit")), figure.dimension
    if match["unit"]:
        measured, factor = units().get(match["unit"]) or units()[match["unit"].lower()]
        dimension = dimension or measured
    figure = replace(figure, value=figure.value * scale, step=figure.step * scale, text=text[figure.start : end])
    return replace(figure, dimension=dimension, factor=factor, end=end)


def is_identifier(text: str, start: int, digits: str) -> bool:
    """Return whether a word such as "cast" stands before an integer."""
    before = text[max(start - _CONTEXT, 0) : start]
    if re.search(r"(?:#|№|第)\s*$", before) or ("." not in digits and re.search(r"\b[A-Z]{1,3}-$", before)):
        return True
    word = re.search(rf"([A-Za-z]+\.?|[{CJK}]+)[ \u00a0]?$", before)
    name = word[1].lower() if word else ""
    if name.isascii():
        is_version = name == "python"
        return ("." not in digits or is_version) and not {name, name.rstrip("s.")}.isdisjoint(words_in("identifiers"))
    return "." not in digits and name.endswith(tuple(w for w in words_in("identifiers") if not w.isascii()))


def is_year(written: str, text: str, figure: Figure) -> bool:
    """Return whether four digits are a year: behind a word such as "in", or without a noun."""
    is_possible = re.fullmatch(r"1[5-9]\d\d|20\d\d|2100", written) and figure.dimension in {"", "months"}
    before, after = text[max(figure.start - _CONTEXT, 0) : figure.start], text[figure.end : figure.end + 2]
    is_alone = not re.match(r"\s\w", after) or bool(re.search(r"\d{4}\s*[–-]$", before))
    word = re.search(r"([A-Za-z]+)[\s(]*$", before)
    return bool(is_possible and (is_alone or (word and word[1].lower() in words_in("year_words"))))


@cache
def number_word_pattern() -> re.Pattern[str]:
    """Return a pattern for numbers in English words."""
    word, scale = (alternatives(lists()[name]) for name in ("number_words", "scales"))
    return re.compile(rf"\b(?:(?:{word})(?:[-\s](?:and\s)?(?:{word}|{scale}))*)\b", re.IGNORECASE)


def _number_words(rest: str, text: str) -> Iterator[Figure]:
    words, scales = lists()["number_words"], lists()["scales"]
    for match in number_word_pattern().finditer(rest):
        parts = re.findall(r"[a-z]+", match[0].lower())
        if parts == ["one"]:
            continue
        total = section = 0
        for part in parts:
            if part in words:
                section += words[part]
            elif scales.get(part, 0) >= _THOUSAND:
                total, section = total + (section or 1) * scales[part], 0
            elif part in scales:
                section = (section or 1) * scales[part]
        yield _with_unit(Figure(match[0], match.start(), match.end(), total + section, is_word=True), text)


def _chinese_numbers(rest: str, text: str) -> Iterator[Figure]:
    by_unit = units() if _CJK_NUMBER.search(rest) else ()
    counters = (*words_in("counters"), *(unit for unit in by_unit if re.match(rf"[{CJK}]", unit)))
    for match in _CJK_NUMBER.finditer(rest):
        written = match[0]
        if written in words_in("not_numbers") or text[max(match.start() - 1, 0) : match.start()] == "第":
            continue
        if not set(written) & {*_CJK_DIGITS, "十"} or written in {"一", "万", "亿", "千", "百"}:
            continue
        is_counted = text.startswith(counters, match.end())
        if is_counted or (len(written) > 1 and set(written) & {*_CJK_TENS, *_CJK_MYRIADS, "点"}):
            step = 10.0 ** -len(written.partition("点")[2])
            figure = Figure(written, match.start(), match.end(), _chinese_number(written), step, is_word=True)
            yield _with_unit(figure, text)


@cache
def noun_pattern() -> re.Pattern[str]:
    """Return a pattern for the counted noun behind a number, without a Chinese counter."""
    counter = alternatives(words_in("counters"))
    return re.compile(rf"\s?(?:(?:{counter})(?=[{CJK}]))?([A-Za-z][a-z]+|[{CJK}]{{1,4}})")


def with_context(figures: list[Figure], text: str) -> Iterator[Figure]:
    """Yield the figures with what surrounds them: about, ±, ranges and the counted noun."""
    for index, figure in enumerate(figures):
        before = text[max(figure.start - _CONTEXT, 0) : figure.start]
        after = text[figure.end : figure.end + _CONTEXT]
        changes: dict[str, Any] = {}
        about = list(phrase_pattern("about").finditer(before))
        if (about and not before[about[-1].end() :].strip(" a$€£¥")) or after.startswith(("左右", "上下")):
            changes["is_about"] = True
        if _SPREAD_JOIN.search(before):
            changes["is_spread"] = True
        following = figures[index + 1] if index + 1 < len(figures) else None
        if following and figure.kind == following.kind == "number" and not figure.dimension and following.dimension:
            joint = text[figure.end : following.start]
            is_between = _BETWEEN_JOIN.fullmatch(joint) and re.search(r"between\s*$", before, re.IGNORECASE)
            if _RANGE_JOIN.fullmatch(joint) or is_between:
                changes |= {"dimension": following.dimension, "factor": following.factor}
        if figure.kind == "number" and not figure.dimension and not changes.get("dimension"):
            noun = noun_pattern().match(after)
            changes["noun"] = next(iter(terms(noun[1])), "") if noun else ""
        yield replace(figure, **changes) if changes else figure
