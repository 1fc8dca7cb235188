"""Where in a text a passage that is not quite there may have been meant: by shared words, in linear time."""

import math
import re
from heapq import nlargest

_WORD = re.compile(r"\w+")
SHOWN = 3
LINE_CHARS = 200


def nearest_passages(text: str, passage: str) -> str:
    """The lines that share most words with the passage, with their numbers, as `12: the line`; at most three."""
    wanted = set(_WORD.findall(passage.lower()))
    lines = enumerate(text.splitlines(), 1)
    scored = ((_score(line, wanted, passage), -number, line) for number, line in lines if line.strip())
    best = sorted((-number, line) for score, number, line in nlargest(SHOWN, scored) if score > 0)
    return "\n".join(f"{number}: {line[:LINE_CHARS]}" for number, line in best) or "(none is alike)"


def _score(line: str, wanted: set[str], passage: str) -> float:
    words = set(_WORD.findall(line.lower()))
    if not words or not wanted:
        return 1.0 if line.strip() in passage else 0.0
    return len(words & wanted) / math.sqrt(len(words | wanted))
