"""A page made harmless for parsers whose time grows with the square of something: done on the text, in linear time.

Scripts, styles and comments go, a tag that is longer than any honest one keeps its name only.
"""

import re

_LONGEST_TAG = 8000  # characters; pictures written into their tag are longer, and are not read
_OPENING = re.compile(r"<(?:(script|style)\b|!--)", re.IGNORECASE)
_CLOSING = {
    "script": re.compile(r"</script\b[^<>]{0,100}>", re.IGNORECASE),
    "style": re.compile(r"</style\b[^<>]{0,100}>", re.IGNORECASE),
    "": re.compile(r"--!?>"),
}
_TAG = re.compile(r"<[a-zA-Z][a-zA-Z0-9]{0,20}")


def tame(page: str) -> str:
    """The page without scripts, styles, comments and overlong tags; what is never closed ends it."""
    return ">".join(_shortened(stretch) for stretch in _readable(page).split(">"))


def _readable(page: str) -> str:
    pieces: list[str] = []
    position = 0
    while opening := _OPENING.search(page, position):
        pieces.append(page[position : opening.start()])
        closing = _CLOSING[(opening[1] or "").lower()].search(page, opening.end())
        if closing is None:
            return "".join(pieces)
        position = closing.end()
    return "".join([*pieces, page[position:]])


def _shortened(stretch: str) -> str:
    """What stands before a `>`: some text and then a tag, which ends there."""
    tag = _TAG.search(stretch) if len(stretch) > _LONGEST_TAG else None
    return stretch[: tag.end()] if tag and len(stretch) - tag.start() > _LONGEST_TAG else stretch
