"""Headings of a text that becomes a part of another one."""

import pytest
from markdown_it import MarkdownIt

from artifactflow_nb.export.headings import as_document_part


@pytest.mark.parametrize(
    ("text", "level", "put"),
    [
        ("# One\n\nText.\n\n## Two", 2, "### One\n\nText.\n\n#### Two"),
        ("### One\n\n##### Two", 1, "## One\n\n#### Two"),
        ("# One\n\n###### Six", 4, "##### One\n\n###### Six"),
        ("One\nmore\n===\n\nTwo\n---\n\nText.", 2, "### One more\n\n#### Two\n\nText."),
        ("C #\n---\nText.", 1, "## C \\#\nText."),
        ("> # Quoted\n> Text.", 2, "> ### Quoted\n> Text."),
        ("> Quoted\n> ---\n> Text.", 2, "> ### Quoted\n> Text."),
        ("- # In a list\n- two", 2, "- ### In a list\n- two"),
        ("```\n# no heading\n```\n\n# One", 2, "```\n# no heading\n```\n\n### One"),
        ("No headings.\n\n- one", 2, "No headings.\n\n- one"),
        ("", 2, ""),
    ],
)
def test_headings_come_below_that_of_the_part(text: str, level: int, put: str) -> None:
    """The highest is one level below, the others keep their distance, none is below the sixth; code stays code."""
    assert as_document_part(text, "Name", level) == put


def test_a_heading_that_says_the_name_is_left_out() -> None:
    """Only where the text begins with it: what comes next is as high as it would have been."""
    assert as_document_part("# The *name*\n\n## One\n\n### Two", "The  Name", 2) == "### One\n\n#### Two"
    assert as_document_part("Text.\n\n# The name", "The name", 2) == "Text.\n\n### The name"
    assert as_document_part("Name\n====", "name", 2) == ""


def test_words_of_a_heading_stay() -> None:
    """What a heading says is the same in its new place."""
    text = "Foo `a # b` *c* #\n===\n\n## D ##"
    before, after = (MarkdownIt("commonmark").render(one) for one in (text, as_document_part(text, "", 2)))
    assert after == before.replace("h2>", "h4>").replace("h1>", "h3>")
