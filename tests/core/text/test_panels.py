"""The HTML that panels and displays of values share: tables, the parts of a comparison, and style rules."""

import re

from artifactflow_nb.core.text.panels import ComparisonRow, comparison_table, panel_html, panel_table


def test_figures_are_at_the_right_and_long_texts_wrap() -> None:
    """The first column names the rows; each cell is escaped."""
    table = panel_table(("name", "n"), [("<b>", 1_000), ("word " * 10, 2)], "Counts", numeric=("n",))
    assert '<th scope="row">&lt;b&gt;</th><td>1,000</td>' in table
    assert '<th scope="row" class="af-long">' in table
    assert '<th scope="col" class="af-words">name</th><th scope="col">n</th>' in table
    assert 'tabindex="0" role="group" aria-label="Counts"' in table


def test_comparison_has_a_column_of_differences_only_for_figures() -> None:
    """A comparison of texts without figures has no such column."""
    facts = [ComparisonRow("status", "completed", "failed")]
    assert "difference" not in comparison_table(facts)
    figures = comparison_table([*facts, ComparisonRow("tokens", "10", "12", "+2")])
    assert re.findall(r'<th scope="col"[^>]*>(\w+)<', figures) == ["a", "b", "difference"]


def test_panel_has_only_the_rules_that_it_uses() -> None:
    """A table needs no rules for differences, and the rules have no blank line."""
    html = panel_html(panel_table(("name",), [("x",)], "Names"))
    style = html.partition("<style>")[2].partition("</style>")[0]
    assert ".af-table-box" in style
    assert ".af-diff" not in style
    assert "\n" not in style
