"""Sentences that the offline model can quote from reports and lists of sources in blocks."""

import pytest

from artifactflow_nb.models.offline.block_texts import (
    BlockText,
    Quote,
    is_report,
    is_source_list,
    quotes_from,
    text_title,
    write_text,
)
from artifactflow_nb.models.offline.phrases import PHRASES
from artifactflow_nb.models.offline.report import Findings, research_answer, research_report
from artifactflow_nb.sources.citations import NO_SOURCES_READ, SourceDocument, SourceQuotes, write_sources

OF_A_MODEL = """# Generators

A generator gives its values one by one [1]. It keeps its place between them, as `a[1]` shows [1, 2].

## Limits

- It can be gone through once[2]. Nobody has ever minded that.

## Sources

1. The yield statement, https://example.com/yield
2. [Generators](https://example.com/generators)
"""


def quoted_sentences(content: str) -> list[str]:
    return [entry.sentence for entry in quotes_from(BlockText("Part / Facts", content))]


def test_report_of_a_language_model_is_quoted_without_numbers() -> None:
    """The sentences are cited with the block; its list of sources and its code are not."""
    assert is_report(OF_A_MODEL)
    assert quoted_sentences(OF_A_MODEL) == [
        "A generator gives its values one by one.",
        "It keeps its place between them, as `a[1]` shows.",
        "It can be gone through once.",
        "Nobody has ever minded that.",
    ]
    assert {entry.address for entry in quotes_from(BlockText("Part / Facts", OF_A_MODEL))} == {"@Part / Facts"}


@pytest.mark.parametrize(
    "sources",
    [
        "1. The book of letters, which says much about them.",
        "[1] The book of letters, which says much about them.",
        "[1]: https://example.com/letters",
        "**References**\n\n- The book of letters. It says much about them.",
        "**Sources:**\n1. The book of letters. It says much about them.",
        "## 参考文献\n\n[1] 《字母之书》，其中写了很多。",
        "### 3. References cited\n\nThe book of letters (2020). It says much about them.",
    ],
)
def test_list_of_sources_is_recognised_by_heading_or_numbers(sources: str) -> None:
    """Nothing is quoted from a list of sources in any of these forms."""
    assert quoted_sentences(f"The letter X is rare in English [1].\n\n{sources}") == [
        "The letter X is rare in English."
    ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "1. The first thing is to count them all.\n2. The second thing is to write that down.",
            ["The first thing is to count them all.", "The second thing is to write that down."],
        ),
        (
            "The list holds two things, and items[1] is the second of them.",
            ["The list holds two things, and items[1] is the second of them."],
        ),
        ("Take the first, a[0].\n\n1. Then take the next of them, please.", ["Then take the next of them, please."]),
    ],
)
def test_numbers_without_sources_make_no_report(text: str, sentences: list[str]) -> None:
    """A list of steps, and a number in brackets without a source, are left as they are."""
    assert not is_report(text)
    assert quoted_sentences(text)[-len(sentences) :] == sentences


@pytest.mark.parametrize("question", ["What is X?", "什么是甲？"])
@pytest.mark.parametrize("make", [research_report, research_answer])
@pytest.mark.parametrize("quotes", [(SourceQuotes("The book", "local:book", ("X is a letter of the book.",)),), ()])
def test_only_quotes_of_an_offline_report_are_quoted(
    question: str, make: object, quotes: tuple[SourceQuotes, ...]
) -> None:
    """Quotes keep the addresses of their sources; the model's own sentences are never quoted."""
    assert callable(make)
    text = make(Findings(question, quotes, ("The book", "Another book"), True, ("web_fetch: no way",), "It is denied."))
    assert is_report(text)
    found = quotes_from(BlockText("Facts", text))
    assert found == [Quote(entry.sentences[0], entry.title, entry.address) for entry in quotes]
    assert text_title(research_report(Findings(question, quotes, (), True))) == question


def test_sentences_added_to_a_report_belong_to_the_block() -> None:
    """Added sentences are quoted with the block's address, before the list of sources and after the report."""
    text = research_report(
        Findings("What is X?", (SourceQuotes("The book", "local:book", ("X is a letter.",)),), (), True)
    )
    text = text.replace("## Sources", "Nobody has seen it lately.\n\n## Sources") + "\nIt was seen again in May.\n"
    assert quoted_sentences(text) == ["X is a letter.", "Nobody has seen it lately.", "It was seen again in May."]


def test_block_of_quotes_is_no_report() -> None:
    """A block of quotes is a report only if it was written from its own sources."""
    quotes = [Quote("X is a letter.", "The book", "local:book")]
    for language in ("en", "zh"):
        say = PHRASES[language]
        assert not is_report(write_text(quotes, [], f"**{say['sources']}** ({say['quoted']})"))
        assert is_report(write_text(quotes, [], f"**{say['sources']}** ({say['quoted_read']})"))


def test_list_of_read_sources_is_quoted_with_their_addresses() -> None:
    """Each sentence of an excerpt has the title and address of its source; an empty list has none."""
    listed = write_sources(
        [SourceDocument("local:a", "A *book*", "It has 3 < 4 pages in all. It is [rather] short.")], ""
    )
    assert is_source_list(listed)
    assert quotes_from(BlockText("Facts: sources", listed)) == [
        Quote("It has 3 < 4 pages in all.", "A *book*", "local:a"),
        Quote("It is [rather] short.", "A *book*", "local:a"),
    ]
    assert is_source_list(NO_SOURCES_READ)
    assert quoted_sentences(NO_SOURCES_READ) == []
    assert not is_source_list("- **Method** — by counting and by asking around")
