"""Decoding of bytes by the character set that the server or the text itself declares, or that is detected.

Only character sets of web pages are accepted: Python has others that are slow to decode or encode no text.
"""

import codecs
import re

_KNOWN = re.compile(
    r"utf-(?:8|16|32)(?:-[lb]e)?|ascii|iso8859-\d+|cp\d{3,4}|koi8-[rut]|gbk?|gb2312|gb18030|hz|big5(?:hkscs)?"
    r"|euc_(?:jp|kr)|shift_jis|iso2022_jp|johab|mac-\w+|tis-620"
)
_WIDER = {"gb2312": "gb18030", "gbk": "gb18030", "ascii": "cp1252", "iso8859-1": "cp1252", "utf-8": "utf-8-sig"}
"""The character sets in which pages that declare the first ones are really written."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = re.compile(rb"""(?i)<(?:meta|\?xml)[^>]{0,300}?(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]{1,40})""")
_DECLARATION_BYTES = 4096
_MAX_CHARACTER_BYTES = 4
_WESTERN = "cp1252"
_DETECTED = ("gb18030", "big5", "cp932", "euc_jp", "euc_kr", "cp1251", "koi8_r", "cp1253")
"""Character sets that are detected: of scripts whose texts have more letters beyond ASCII than in it."""

_SAMPLE_BYTES = 65_536
_MIN_NON_ASCII = 8  # in fewer bytes every character set finds some letters


def decode_body(body: bytes, charset: str = "") -> str:
    """Decode bytes; invalid ones become U+FFFD.

    The bytes may end inside a character; `charset` is what the server declared.
    """
    codec = next((codec for mark, codec in _MARKS if body.startswith(mark)), "") or _codec(charset)
    if not codec and (declaration := _DECLARED.search(body[:_DECLARATION_BYTES])):
        codec = _codec(declaration[1].decode("ascii"))
        if codec.startswith(("utf-16", "utf-32")):  # the declaration was read as ASCII, so the page is not in UTF-16
            codec = "utf-8-sig"
    if not codec:
        codec = "utf-8"
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as error:
            ends_inside_character = len(body) - error.start < _MAX_CHARACTER_BYTES and not body[: error.start].isascii()
            codec = "utf-8" if ends_inside_character else _detect(body[:_SAMPLE_BYTES])
    return body.decode(codec, "replace")


def _codec(name: str) -> str:
    """Return Python's name of a character set of web pages; empty for another name."""
    try:
        known = codecs.lookup(name.strip().strip("\"'")).name
    except (LookupError, ValueError):
        return ""
    return _WIDER.get(known, known) if _KNOWN.fullmatch(known) else ""


def _detect(sample: bytes) -> str:
    """Detect the character set of a text that is not UTF-8 and declares none.

    charset-normalizer decides among other scripts only: with all character sets it read 27 of 40 short Western texts
    as Central European, as a code page of DOS or as Chinese.
    """
    ascii_part = sample.decode("ascii", "ignore")
    n_non_ascii = len(sample) - len(ascii_part)
    if n_non_ascii < max(_MIN_NON_ASCII, sum(map(str.isalpha, ascii_part))):
        return _WESTERN
    from charset_normalizer import from_bytes

    isolated = list(_DETECTED)
    ends = range(len(sample), len(sample) - _MAX_CHARACTER_BYTES, -1)  # it may end inside a character, which misleads
    matches = [match for end in ends if (match := from_bytes(sample[:end], cp_isolation=isolated).best()) is not None]
    return max(matches, key=lambda match: (match.coherence, -match.chaos)).encoding if matches else _WESTERN
