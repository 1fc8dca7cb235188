"""Reports and lists of sources as the offline model reads them in the texts of blocks."""

import pytest

from artifactflow_nb.models.offline_block_read import BlockText
from artifactflow_nb.models.offline_block_words import BLOCK_PHRASES
from artifactflow_nb.models.offline_quoted import Said, quotable, written
from artifactflow_nb.models.offline_report import Findings, answer, report
from artifactflow_nb.models.offline_researched import is_report, is_source_list, title_of
from artifactflow_nb.text.citations import Document, Quotes
from artifactflow_nb.text.source_list import NONE_READ, write_sources

OF_A_MODEL = """# Generators

A generator gives its values one by one [1]. It keeps its place between them, as `a[1]` shows [1, 2].

## Limits

- It can be gone through once[2]. Nobody has ever minded that.

## Sources

1. The yield statement, https://example.com/yield
2. [Generators](https://example.com/generators)
"""


def said(content: str) -> list[str]:
    return [one.sentence for one in quotable(BlockText("Part / Facts", content))]


def test_a_report_of_a_language_model_is_quoted_without_its_numbers() -> None:
    """The sentences are cited with the block; its list of sources is not torn apart, and code is left alone."""
    assert is_report(OF_A_MODEL)
    assert said(OF_A_MODEL) == [
        "A generator gives its values one by one.",
        "It keeps its place between them, as `a[1]` shows.",
        "It can be gone through once.",
        "Nobody has ever minded that.",
    ]
    assert {one.address for one in quotable(BlockText("Part / Facts", OF_A_MODEL))} == {"@Part / Facts"}


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
def test_a_list_of_sources_is_known_by_its_heading_or_its_numbers(sources: str) -> None:
    """However it is written, nothing of it is quoted."""
    assert said(f"The letter X is rare in English [1].\n\n{sources}") == ["The letter X is rare in English."]


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
def test_what_only_looks_like_it_is_no_report(text: str, sentences: list[str]) -> None:
    """A list of steps, and a number in brackets that no source has, stay as they are."""
    assert not is_report(text)
    assert said(text)[-len(sentences) :] == sentences


@pytest.mark.parametrize("question", ["What is X?", "什么是甲？"])
@pytest.mark.parametrize("make", [report, answer])
@pytest.mark.parametrize("quotes", [(Quotes("The book", "local:book", ("X is a letter of the book.",)),), ()])
def test_of_a_report_of_its_own_the_quotes_are_quoted(question: str, make: object, quotes: tuple[Quotes, ...]) -> None:
    """With the addresses of their sources, and none of the model's own words, whatever went wrong besides."""
    assert callable(make)
    text = make(Findings(question, quotes, ("The book", "Another book"), True, ("web_fetch: no way",), "It is denied."))
    assert is_report(text)
    found = quotable(BlockText("Facts", text))
    assert found == [Said(one.sentences[0], one.title, one.address) for one in quotes]
    assert title_of(report(Findings(question, quotes, (), True))) == question


def test_what_a_person_adds_to_a_report_is_theirs() -> None:
    """It is quoted as the block's, in front of the list of sources and behind the report."""
    text = report(Findings("What is X?", (Quotes("The book", "local:book", ("X is a letter.",)),), (), True))
    text = text.replace("## Sources", "Nobody has seen it lately.\n\n## Sources") + "\nIt was seen again in May.\n"
    assert said(text) == ["X is a letter.", "Nobody has seen it lately.", "It was seen again in May."]


def test_a_block_that_was_written_of_quotes_is_no_report() -> None:
    """Unless it was written from what had been read for it."""
    quotes = [Said("X is a letter.", "The book", "local:book")]
    for language in ("en", "zh"):
        say = BLOCK_PHRASES[language]
        assert not is_report(written(quotes, [], f"**{say['sources']}** ({say['quoted']})"))
        assert is_report(written(quotes, [], f"**{say['sources']}** ({say['quoted_read']})"))


def test_a_list_of_what_was_read_is_quoted_by_its_addresses() -> None:
    """Each sentence of an excerpt has the title and address of its source; where nothing was read, there is none."""
    listed = write_sources([Document("local:a", "A *book*", "It has 3 < 4 pages in all. It is [rather] short.")], "")
    assert is_source_list(listed)
    assert quotable(BlockText("Facts: sources", listed)) == [
        Said("It has 3 < 4 pages in all.", "A *book*", "local:a"),
        Said("It is [rather] short.", "A *book*", "local:a"),
    ]
    assert is_source_list(NONE_READ)
    assert said(NONE_READ) == []
    assert not is_source_list("- **Method** — by counting and by asking around")
