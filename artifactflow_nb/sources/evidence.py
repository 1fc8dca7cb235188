"""`Evidence`: what a run has seen of the sources that it cites."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

NOT_READ = "This run has not read this source."

_INSIGNIFICANT = re.compile(r"^https?://(?:www\.)?|/?(?:#.*)?$")
"""Scheme, fragment and slash at the end of a web address, which do not change the page."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a run has seen of sources.

    Attributes:
        texts: The texts of the sources that it read, by address.
        snippets: What searches showed of sources, by address.
        named: Addresses that it knows from its question or from a tool other than search and fetch.
        is_complete: True if it has read no other source. Else nothing is known of a source that is not in `texts`.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    snippets: Mapping[str, str] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    is_complete: bool = False

    def text(self, address: str) -> str:
        """The text of a source, or of a part of it that was read; empty if none was."""
        return _text_of(address, self.texts)

    def snippet(self, address: str) -> str:
        """What a search showed of a source; empty if none found it."""
        return _text_of(address, self.snippets)

    def is_unread(self, address: str) -> bool:
        """True if the run has certainly not read a source."""
        known = (*self.texts, *self.named)
        return self.is_complete and not any(is_same_source(name, address) for name in known)


def _text_of(address: str, texts: Mapping[str, str]) -> str:
    if address in texts:
        return texts[address]
    return next((text for known, text in texts.items() if is_same_source(known, address)), "")


def is_same_source(read: str, cited: str) -> bool:
    """True if two addresses name the same web page, or if one names a file and the other a section of it."""
    if read == cited:
        return True
    if read.startswith("local:"):
        return read.partition("#")[0] == cited.partition("#")[0] and not ("#" in read and "#" in cited)
    return _INSIGNIFICANT.sub("", read).lower() == _INSIGNIFICANT.sub("", cited).lower()
