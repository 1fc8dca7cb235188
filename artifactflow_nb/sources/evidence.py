"""`Evidence`: the texts of sources that a run has read or found."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

NOT_READ = "This run has not read this source."

_INSIGNIFICANT = re.compile(r"^https?://(?:www\.)?|/?(?:#.*)?$")
"""Scheme, fragment and slash at the end of a web address, which do not change the page."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The texts of sources that a run has read or found.

    Attributes:
        texts: The texts of the sources that it read, by address.
        snippets: Excerpts of sources in search results, by address.
        named: Addresses in its question, or in results of tools other than search and fetch.
        is_complete: True if `texts` has every source that it read; otherwise it may have read others.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    snippets: Mapping[str, str] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    is_complete: bool = False

    def text(self, address: str) -> str:
        """Return the text of a source, or the part that was read; empty if it was not read."""
        return _text_of(address, self.texts)

    def snippet(self, address: str) -> str:
        """Return the excerpt of a source in search results; empty if no search found it."""
        return _text_of(address, self.snippets)

    def is_unread(self, address: str) -> bool:
        """Return whether the run has certainly not read a source."""
        known = (*self.texts, *self.named)
        return self.is_complete and not any(is_same_source(name, address) for name in known)


def _text_of(address: str, texts: Mapping[str, str]) -> str:
    if address in texts:
        return texts[address]
    return next((text for known, text in texts.items() if is_same_source(known, address)), "")


def is_same_source(read: str, cited: str) -> bool:
    """Return whether two addresses name the same web page, or a file and a section of it."""
    if read == cited:
        return True
    if read.startswith("local:"):
        return read.partition("#")[0] == cited.partition("#")[0] and not ("#" in read and "#" in cited)
    return _INSIGNIFICANT.sub("", read).lower() == _INSIGNIFICANT.sub("", cited).lower()
