"""Whether a recorded text is a text of now, but for its secrets.

Other secrets are known where a run is played than where it was recorded. So what was masked there and is not known here
fits whatever stands in its place, if that can be one secret: no spaces, quotes, brackets or separators, as a change of
the text around it would bring along.
"""

import re

from artifactflow_nb.recordings.secret_names import MASK

SHORTEST = 4
SHORTEST_WORD = 8
"""A key of fewer letters is a placeholder such as EMPTY, and would blot out words."""

_WHOLE = re.compile(r"""[^\s"'`<>(){},;&|\\]{4,4096}+""")
"""The longest that may be one secret; a mask is, too."""


def is_long_enough(secret: str) -> bool:
    """Whether a value is to be looked for: it is no placeholder."""
    return len(secret) >= SHORTEST_WORD or (len(secret) >= SHORTEST and not secret.isalpha())


def is_masked(recorded: str, now: str) -> bool:
    """Whether the texts are the same, where each mask of the recorded one may stand for a secret in the other."""
    first, *parts = recorded.split(MASK)
    if not parts or not now.startswith(first):
        return recorded == now
    at = len(first)
    for part in parts[:-1]:
        if part and (at := _behind(now, at, part)) < 0:  # masks side by side are one
            return False
    found = len(now) - len(parts[-1])
    return now.endswith(parts[-1]) and _may_be_secret(now, at, found)


def _behind(now: str, at: int, part: str) -> int:
    """Where the text goes on after a secret that stands here and the part that follows it; -1 if it does not."""
    whole = _WHOLE.match(now, at)
    if whole is None:
        return -1
    found = now.find(part, at + SHORTEST, whole.end() + len(part))
    return found + len(part) if found >= 0 and _may_be_secret(now, at, found) else -1


def _may_be_secret(now: str, start: int, end: int) -> bool:
    found = _WHOLE.match(now, start, end) if start < end else None
    return found is not None and found.end() == end and is_long_enough(now[start:end])
