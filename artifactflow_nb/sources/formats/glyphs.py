"""Repair of glyphs that fonts do not name: private characters of symbol fonts, and numbers of glyphs."""

import re
from collections.abc import Sequence

_GREEK = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
_SIGNS = {0xA3: "≤", 0xA5: "∞", 0xA7: "•", 0xA8: "☐", 0xAE: "→", 0xB0: "°", 0xB1: "±", 0xB3: "≥", 0xB4: "×", 0xB6: "∂",
          0xB7: "•", 0xB9: "≠", 0xBB: "≈", 0xD7: "⋅", 0xD8: "•", 0xE0: "→", 0xE5: "∑", 0xFC: "✓"}  # fmt: skip
_LETTERS = dict(zip((*range(0x41, 0x5B), *range(0x61, 0x7B)), "".join(_GREEK), strict=True))
_SYMBOLS = {0xF000 + code: char for code, char in (_SIGNS | _LETTERS).items()}  # of the fonts Symbol and Wingdings
_SYMBOLS |= {0xF700 + code: chr(code) for code in (*range(0x30, 0x3A), *range(0x61, 0x7B))}  # Adobe's small capitals
_SIGNS_OF_FONTS = {
    "Wingdings": {0x6F: "☐", 0x71: "☐", 0xA8: "☐", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑"},
    "Wingdings 2": {0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0xA3: "☐"},
}
_BULLET = re.compile(r"(?m)^[\uf020-\uf0ff](?=\s)")


def repair_glyphs(text: str, font: str = "") -> str:
    """Replace private characters with a known meaning, and signs of a font named `Wingdings`; keep the length."""
    if signs := _SIGNS_OF_FONTS.get(font):
        text = "".join(signs.get(ord(char) & 0xFF, char) for char in text)
    return text if text.isascii() else _BULLET.sub("•", text).translate(_SYMBOLS)


_SPACE, _FIRST_BEYOND_ASCII, _LAST_GLYPH = 3, 98, 225
_MIN_GLYPHS = 20
_VOWELS = frozenset("aeiou")


def name_glyphs(numbers: Sequence[int]) -> str:
    """Read the numbers of glyphs as characters in the order of most fonts; return "" if no text results."""
    text = "".join(map(_glyph, numbers))
    letters = [char for char in text.lower() if char.isalpha()]
    is_text = (
        len(text) >= _MIN_GLYPHS
        and len(letters) > 0.6 * len(text)
        and sum(map(_VOWELS.__contains__, letters)) > 0.25 * len(letters)
        and len(text) / 20 < text.count(" ") < len(text) / 3
    )
    return text if is_text else ""


def _glyph(number: int) -> str:
    if not _SPACE <= number <= _LAST_GLYPH:
        return "\ufffd"
    is_ascii = number < _FIRST_BEYOND_ASCII
    return chr(number + 29) if is_ascii else bytes([number + 30]).decode("mac_roman")
