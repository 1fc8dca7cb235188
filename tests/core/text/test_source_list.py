"""The source list of a report."""

from hypothesis import given
from hypothesis import strategies as st

from artifactflow_nb.sources.citations import NO_SOURCES_READ, SourceDocument, read_sources, write_sources

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
LINES = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)
ADDRESSES = st.from_regex(r"\A(?:local:|https://)[a-z0-9/#._*<>~-]{1,20}\Z")


@given(st.lists(st.builds(SourceDocument, ADDRESSES, LINES, LINES), max_size=4))
def test_source_list_round_trips(documents: list[SourceDocument]) -> None:
    """Titles, addresses and excerpts are read back unchanged, with any Markdown in them."""
    listed = write_sources(documents, "")
    read = read_sources(listed)
    assert [(entry.address, entry.title) for entry in read] == [
        (document.address, document.title) for document in documents
    ]
    assert all(entry.text for entry in read)


def test_excerpt_has_whole_sentences() -> None:
    """Headings, grammar and omissions of a page are skipped, and no sentence is cut."""
    page = "[... 8,465 characters left out ...]\n\nThe yield statement\n*******************\n\nyield ::= expr\n\n"
    page += "This makes every generator. " * 60
    [read] = read_sources(write_sources([SourceDocument("local:yield", "Yield", page)], ""))
    assert read.text.startswith("This makes every generator. This makes")
    assert read.text.endswith("generator.")
    assert 500 < len(read.text) <= 600


def test_excerpt_of_a_text_without_sentences_is_its_start() -> None:
    """A table or code is quoted from its start; an empty text has only its title."""
    assert read_sources(write_sources([SourceDocument("local:a", "A", "x = 1")], ""))[0].text == "x = 1"
    assert write_sources([SourceDocument("local:a", "", "")], "") == "- **local:a** — local:a"


def test_cited_sources_come_first() -> None:
    """Other sources follow in reading order; a report without sources has a note."""
    documents = [SourceDocument("local:a", "A"), SourceDocument("local:b", "B"), SourceDocument("local:c", "C")]
    assert [document.address for document in read_sources(write_sources(documents, "1. C — local:c"))] == [
        "local:c",
        "local:a",
        "local:b",
    ]
    assert write_sources([], "") == NO_SOURCES_READ
