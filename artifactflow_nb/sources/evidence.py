"""`Evidence`: what a run has seen of the sources that it cites."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

NOT_READ = "This run has not read this source."


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
        if address in self.texts:
            return self.texts[address]
        return next((text for read, text in self.texts.items() if _is_part(read, address)), "")

    def is_unread(self, address: str) -> bool:
        """True if the run has certainly not read a source."""
        known = (*self.texts, *self.named)
        return self.is_complete and not any(name == address or _is_part(name, address) for name in known)


def _is_part(read: str, cited: str) -> bool:
    """True if two addresses are of one page of the web, or one of them is of the file that has the other's section."""
    if read.startswith("local:"):
        return read.partition("#")[0] == cited.partition("#")[0] and not ("#" in read and "#" in cited)
    return _page(read) == _page(cited)


def _page(address: str) -> tuple[str, str, str]:
    """Host, path and query of a web address; the scheme, the fragment and a slash at the end do not matter."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "", address, ""
    return parts.netloc.lower().removeprefix("www."), parts.path.rstrip("/"), parts.query
