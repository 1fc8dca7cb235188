"""What a block may be called, and the id that it gets by its name."""

import re
import unicodedata
from collections.abc import Iterable

from artifactflow_nb.errors import UsageError

NAME_CHARS = 120

NEVER_BLOCKS = frozenset({"project", "task_plan"})
"""The ids of artifacts that are something else in every conversation."""

_NO_WORD = re.compile(r"[^\w]+")


def plain(text: str) -> str:
    """A text as it can be stored: no half of a pair of characters stands alone in it."""
    return text.encode("utf-8", "replace").decode()


def composed(text: str) -> str:
    """A text in which letters with accents are one character each, however they were typed."""
    return unicodedata.normalize("NFC", text)


def folded(name: str) -> str:
    """A name as it is compared: without regard to letter case, and to how its accents were typed."""
    return composed(composed(name).casefold())


def checked_name(name: str) -> str:
    """A block's name as it is stored; `UsageError` for what can be none."""
    wanted = " ".join(composed(plain(str(name))).split())
    if not wanted or len(wanted) > NAME_CHARS or "/" in wanted or wanted.startswith("@"):
        raise UsageError(
            f"A block cannot be called {wanted!r:.140}: a name has 1 to {NAME_CHARS} characters, no '/' and no '@' at "
            "its beginning."
        )
    return wanted


def free_id(name: str, taken: Iterable[str]) -> str:
    """An id for a block of this name that no artifact has."""
    used = NEVER_BLOCKS.union(taken)
    stem = _NO_WORD.sub("_", name.casefold()).strip("_")[:60] or "block"
    found, n = stem, 2
    while found in used:
        found, n = f"{stem}_{n}", n + 1
    return found
