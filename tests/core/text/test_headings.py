"""Headings of a text that becomes a part of another one."""

import pytest
from markdown_it import MarkdownIt

from artifactflow_nb.export.document import as_document_part


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
def test_headings_are_moved_below_the_heading_of_the_part(text: str, level: int, put: str) -> None:
    """The highest heading is one level below, other headings keep their distance up to level six; code is unchanged."""
    assert as_document_part(text, "Name", level) == put


def test_first_heading_with_the_name_is_omitted() -> None:
    """Only a heading at the start is omitted; the levels of other headings do not depend on that heading."""
    assert as_document_part("# The *name*\n\n## One\n\n### Two", "The  Name", 2) == "### One\n\n#### Two"
    assert as_document_part("Text.\n\n# The name", "The name", 2) == "Text.\n\n### The name"
    assert as_document_part("Name\n====", "name", 2) == ""


def test_text_of_a_heading_is_unchanged() -> None:
    """Only the level of a heading changes."""
    text = "Foo `a # b` *c* #\n===\n\n## D ##"
    before, after = (MarkdownIt("commonmark").render(entry) for entry in (text, as_document_part(text, "", 2)))
    assert after == before.replace("h2>", "h4>").replace("h1>", "h3>")
