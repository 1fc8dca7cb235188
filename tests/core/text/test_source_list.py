"""The list of the sources that were read for a report."""

from hypothesis import given
from hypothesis import strategies as st

from artifactflow_nb.sources.citations import NO_SOURCES_READ, SourceDocument, read_sources, write_sources

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12)
LINES = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)
ADDRESSES = st.from_regex(r"\A(?:local:|https://)[a-z0-9/#._*<>~-]{1,20}\Z")


@given(st.lists(st.builds(SourceDocument, ADDRESSES, LINES, LINES), max_size=4))
def test_source_list_round_trips(documents: list[SourceDocument]) -> None:
    """Titles, addresses and excerpts come back as they were, whatever marks of Markdown stand in them."""
    told = write_sources(documents, "")
    read = read_sources(told)
    assert [(one.address, one.title) for one in read] == [(one.address, one.title) for one in documents]
    assert all(one.text for one in read)


def test_an_excerpt_is_whole_sentences() -> None:
    """Of a page headings, grammar and what was left out are passed over, and no sentence is cut."""
    page = "[... 8,465 characters left out ...]\n\nThe yield statement\n*******************\n\nyield ::= expr\n\n"
    page += "This makes every generator. " * 60
    [read] = read_sources(write_sources([SourceDocument("local:yield", "Yield", page)], ""))
    assert read.text.startswith("This makes every generator. This makes")
    assert read.text.endswith("generator.")
    assert 500 < len(read.text) <= 600


def test_a_text_without_sentences_is_told_by_how_it_begins() -> None:
    """A table or a line of code is better than nothing; of nothing only the title stands there."""
    assert read_sources(write_sources([SourceDocument("local:a", "A", "x = 1")], ""))[0].text == "x = 1"
    assert write_sources([SourceDocument("local:a", "", "")], "") == "- **local:a** — local:a"


def test_what_a_report_names_comes_first() -> None:
    """The others follow as they were read; without any that is said."""
    documents = [SourceDocument("local:a", "A"), SourceDocument("local:b", "B"), SourceDocument("local:c", "C")]
    assert [one.address for one in read_sources(write_sources(documents, "1. C — local:c"))] == [
        "local:c",
        "local:a",
        "local:b",
    ]
    assert write_sources([], "") == NO_SOURCES_READ
