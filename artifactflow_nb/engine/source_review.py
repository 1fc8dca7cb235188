"""Comparison of the sources that a run read with their current texts."""

from collections.abc import Sequence
from dataclasses import dataclass

from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.sources.changes import SourceChange, SourceOfRun, UncheckedSource
from artifactflow_nb.sources.manager import SCHEME, SourceManager
from artifactflow_nb.tools.web.fetch import Fetcher

_GONE = ("status 404", "status 410")


@dataclass(frozen=True, slots=True)
class SourceReview:
    """The state of sources.

    Attributes:
        changes: The sources that have changed; their claims are empty.
        unchecked: The sources that could not be compared.
    """

    changes: tuple[SourceChange, ...]
    unchecked: tuple[UncheckedSource, ...]


async def review_sources(used: Sequence[SourceOfRun], sources: SourceManager, fetcher: Fetcher | None) -> SourceReview:
    """Read local sources and pages of the web again, and compare their texts.

    Args:
        used: The sources with the texts that agents got.
        sources: The local sources; changed files are indexed again.
        fetcher: Fetches pages; None to leave pages unchecked.
    """
    changes: list[SourceChange] = []
    unchecked: list[UncheckedSource] = []
    indexed = {known.source_id for known in await sources.sources()}
    folders = {source_id.partition("/")[0] for source_id in indexed}
    pages = [source for source in used if not source.address.startswith(SCHEME)]
    for source in used:
        if source in pages:
            continue
        source_id = source.address.removeprefix(SCHEME).partition("#")[0]
        if source_id not in indexed and source_id.partition("/")[0] not in folders:
            reason = "is not in the index; add its folder with wb.add_sources(...)"
            unchecked.append(UncheckedSource(source.address, reason))
            continue
        try:
            section = await sources.read(source.address)
        except NotFound:
            changes.append(SourceChange(source.address, source.title, "removed"))
        except UsageError:
            unchecked.append(UncheckedSource(source.address, "is in a folder that is not there now"))
        else:
            if not source.is_same_as(section.text):
                changes.append(SourceChange(source.address, source.title, "changed"))
    if fetcher is None:
        unchecked += [UncheckedSource(page.address, "was not fetched again") for page in pages]
        return SourceReview(tuple(changes), tuple(unchecked))
    for page, fetched in zip(pages, await fetcher.fetch_all([page.address for page in pages]), strict=True):
        if fetched.error is None:
            if not page.is_same_as(fetched.text):
                changes.append(SourceChange(page.address, page.title, "changed"))
        elif any(status in fetched.error for status in _GONE):
            changes.append(SourceChange(page.address, page.title, "removed"))
        else:
            unchecked.append(UncheckedSource(page.address, f"could not be fetched: {fetched.error}"))
    return SourceReview(tuple(changes), tuple(unchecked))
