"""Bytes of the web as text, by what the server, the page or the bytes themselves say of their character set.

Only character sets that pages are written in are taken: Python knows others that are slow to read or no texts at all.
"""

import codecs
import re

_KNOWN = re.compile(
    r"utf-(?:8|16|32)(?:-[lb]e)?|ascii|iso8859-\d+|cp\d{3,4}|koi8-[rut]|gbk?|gb2312|gb18030|hz|big5(?:hkscs)?"
    r"|euc_(?:jp|kr)|shift_jis|iso2022_jp|johab|mac-\w+|tis-620"
)
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "ascii": "cp1252", "iso8859-1": "cp1252", "utf-8": "utf-8-sig"}
"""What pages that name the first are really written in."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = re.compile(rb"""(?i)<(?:meta|\?xml)[^>]{0,300}?(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]{1,40})""")
_DECLARATION_WITHIN = 4096
_LONGEST_CHARACTER = 4
_LAST_RESORT = "cp1252"


def text_of(body: bytes, charset: str = "") -> str:
    """The bytes as text; what cannot be read in the character set becomes U+FFFD.

    Args:
        body: The bytes; they may end inside a character.
        charset: What the server said; empty for nothing.
    """
    codec = _marked(body) or _codec(charset) or _declared(body) or _guessed(body)
    return body.decode(codec, "replace")


def _marked(body: bytes) -> str:
    return next((codec for mark, codec in _MARKS if body.startswith(mark)), "")


def _codec(name: str) -> str:
    try:
        known = codecs.lookup(name.strip().strip("\"'")).name
    except (LookupError, ValueError):
        return ""
    return _WIDER.get(known, known) if _KNOWN.fullmatch(known) else ""


def _declared(body: bytes) -> str:
    """What the page says of itself; one that can be read as ASCII up to there is not in UTF-16."""
    found = _DECLARED.search(body[:_DECLARATION_WITHIN])
    codec = _codec(found[1].decode("ascii")) if found else ""
    return "utf-8-sig" if codec.startswith(("utf-16", "utf-32")) else codec


def _guessed(body: bytes) -> str:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        cut_inside = len(body) - error.start < _LONGEST_CHARACTER and not body[: error.start].isascii()
        return "utf-8" if cut_inside else _LAST_RESORT
    return "utf-8"
