"""How long a text shall be, as far as words about its style say so."""

import re
from dataclasses import dataclass

_NUMBERS = {
    word: number
    for number, words in enumerate(
        [
            "one 一",
            "two 二 两 兩",
            "three 三",
            "four 四",
            "five 五",
            "six 六",
            "seven 七",
            "eight 八",
            "nine 九",
            "ten 十",
        ],
        1,
    )
    for word in words.split()
}
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
_USUAL, _LONG = 6, 12


@dataclass(frozen=True, slots=True)
class Length:
    """How many sentences a text shall have.

    Attributes:
        most: So many at most.
        is_asked: Whether anybody said so.
        rest: What was said besides, about anything but the length.
    """

    most: int = _USUAL
    is_asked: bool = False
    rest: str = ""


def length_of(style: str, n_before: int) -> Length:
    """What words about style say of the length; `n_before` is how many sentences the text has had until now."""
    if found := _COUNT.search(style):
        said = (found[1] or found[2] or "one").lower()
        return Length(max(int(said) if said.isdigit() else _NUMBERS[said], 1), True, _without(style, found))
    if found := _SHORTER.search(style):
        return Length(max((n_before or _USUAL) // 2, 1), True, _without(style, found))
    if found := _LONGER.search(style):
        return Length(max(_LONG, 2 * n_before), True, _without(style, found))
    return Length(rest=style)


def _without(style: str, found: re.Match[str]) -> str:
    """What is said besides; nothing if that are only words that join or ask."""
    rest = f"{style[: found.start()]} {style[found.end() :]}"
    said = re.search(r"\w", _FILLER.sub(" ", rest))
    return " ".join(rest.split()).strip(" ,.;:!，。；：！、") if said else ""
