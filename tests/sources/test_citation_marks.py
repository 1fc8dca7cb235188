"""Citation marks with their passages, and one number for each source of a report."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu_time import within
from support.safe_html import harms

from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.sources.citation_marks import Citations, SourceNumbers, find_passage, listed_sources
from artifactflow_nb.sources.values import Evidence

ADDRESS = "local:handbook/storage.md#backups"
TEXT = (
    "## Backups\n\nThe server copies `raw/` every night at 02:00. A backup counts only after a restore has been tried. "
    "If the comparison fails, tell the data steward."
)
REPORT = f"""# Backups

> A backup counts only after a restore has been tried. [1]

A failed comparison is told to the data steward [1, 2], `x[1]` and [7].

## Sources

1. Storage: **Backups** — {ADDRESS}
2. [The guide](https://docs.python.org/3/guide.html)
"""


def cited(markdown: str, **texts: str) -> str:
    citations = Citations(listed_sources(markdown), Evidence(texts or {ADDRESS: TEXT}))
    return citations.apply(MarkdownRenderer().html(markdown))


def renumbered(*texts: str) -> str:
    """Number the sources of several texts of a run, and return the last text."""
    numbers = SourceNumbers()
    return [numbers.apply(text) for text in texts][-1]


@pytest.mark.parametrize(
    ("line", "title", "address"),
    [
        (f"1. Storage: Backups — {ADDRESS}", "Storage: Backups", ADDRESS),
        ("1. [The guide](https://e.org/a)", "The guide", "https://e.org/a"),
        ("[1] The guide: https://e.org/a.", "The guide", "https://e.org/a"),
        ("[1]: https://e.org/a", "https://e.org/a", "https://e.org/a"),
        ("- [1] **The guide** (https://e.org/a)", "The guide", "https://e.org/a"),
        ("1) The guide <https://e.org/a>", "The guide", "https://e.org/a"),
        ("**[1]** The guide. https://e.org/a", "The guide.", "https://e.org/a"),
        ("[1] The guide\nURL: https://e.org/a", "The guide", "https://e.org/a"),
        ("Sources:\n\n**1.** The guide: https://e.org/a", "The guide", "https://e.org/a"),
        (
            "## Sources\n\n| No. | Title | Address |\n|---|---|---|\n| 1 | Guide | https://e.org/a |",
            "Guide",
            "https://e.org/a",
        ),
        ("1. **Ferries on the lake**, https://e.org/a", "Ferries on the lake", "https://e.org/a"),
        ('1. "Ferries on the lake," https://e.org/a', '"Ferries on the lake"', "https://e.org/a"),
        ("1. 湖上的渡轮，https://e.org/a", "湖上的渡轮", "https://e.org/a"),
        ("来源：\n\n1、指南：https://e.org/a。", "指南", "https://e.org/a"),
    ],
)
def test_forms_of_source_lists(line: str, title: str, address: str) -> None:
    """The forms in which models list their sources are read."""
    source = listed_sources(f"Text [1].\n\n{line}\n")[1]
    assert (source.number, source.title, source.address) == (1, title, address)


BODY_LIST = "1. Sampling\n2. Analysis\n3. Publication, see https://e.org/annual.\n"


@pytest.mark.parametrize(
    ("report", "numbers"),
    [
        (f"X [3].\n\n{BODY_LIST}\n## Limits\n\nNone.\n\n[1] A: local:a.md\n[3] C: local:c.md\n", {1, 3}),
        (f"X [3].\n\n{BODY_LIST}\n## 来源\n\n3. C: local:c.md\n", {3}),
        (f"X [3].\n\n{BODY_LIST}\n## Sources\n\n**Files**\n\n3. C: local:c.md\n\n## End\n\n1. https://e.org/x", {3}),
        ("X [3].\n\n[3] says so, see https://e.org/x.\n\nSources:\n1. A: local:a.md\n3. C: local:c.md\n", {1, 3}),
        (f"X [3].\n\n{BODY_LIST}", set()),
        ("X [1].\n\n## Next steps\n\n1. See https://e.org/x\n2. https://e.org/y\n", set()),
        ("X [1].\n\nNext steps:\n\n1. See https://e.org/x\n", set()),
        ("X [1].\n\n## Data sources\n\n1. A: local:a.md\n", {1}),
        ("X [1].\n\n1. See https://e.org/x\n2. https://e.org/y\n\n## Limits\n\nNone.\n", set()),
    ],
)
def test_items_of_other_lists_are_not_sources(report: str, numbers: set[int]) -> None:
    """Only an entry of the list of sources defines a number, for marks, works and claims alike."""
    listed = listed_sources(report)
    assert set(listed) == numbers
    assert all(source.address.startswith("local:") for source in listed.values())
    assert renumbered(report).count("e.org") == report.count("e.org")
    marks = re.findall(r'aria-label="([^"]*)"', cited(report))
    assert set(marks) <= {"[1] A", "[3] C"}
    assert bool(marks) == bool(numbers)


def test_marks_have_the_numbers_of_the_list() -> None:
    """Until a run ends, an address may have two numbers: the marks have the numbers of the displayed list."""
    report = "Both [1, 3] and [3].\n\n1. A — https://e.org/a\n2. B — https://e.org/b\n3. A again — https://e.org/a\n"
    assert re.findall(r"\[\d\]</span>", cited(report)) == ["[1]</span>", "[3]</span>", "[3]</span>"]


def test_list_has_the_numbers_that_its_marks_cite() -> None:
    """A list that leaves out a number keeps its numbers; a list that repeats a number is counted."""
    html = cited("Both [2] and [4].\n\n[2] A: https://e.org/a\n[4] B: https://e.org/b\n[5] C: https://e.org/c\n")
    assert re.findall(r"<(?:ol|li)[^>]*>", html) == ['<ol start="2">', "<li>", '<li value="4">', "<li>"]
    assert "value" not in cited("1. A\n1. B\n7. C\n")


def test_lines_of_sources_become_a_list() -> None:
    """Lines that start with a number in brackets and contain an address become a numbered list."""
    html = MarkdownRenderer().html("[1] A: https://e.org/a\n[2] B: https://e.org/b\n")
    assert html.count("<li>") == 2


def test_citation_shows_the_passage_with_the_quoted_words() -> None:
    """The citation has the title, the section, the marked sentence and, for a web page, a link."""
    html = cited(REPORT)
    assert html.count('class="af-cite"') == 3
    assert 'role="button" aria-label="[1] Storage: Backups">[1]</span>' in html
    assert "<small>Section backups</small>" in html
    assert "<mark>A backup counts only after a restore has been tried.</mark> If the comparison" in html
    assert '<a href="https://docs.python.org/3/guide.html" target="_blank"' in html
    assert "<code>x[1]</code> and [7]." in html


def test_passage_has_the_words_of_its_markdown_and_not_its_marks() -> None:
    text = (
        "# Fares\n\n- A **tandem** costs `3` crowns, see [the list](https://e.org/fares.md).\n"
        "- Dogs call `__exit__`.\n\n"
        "| boat | crowns |\n| --- | :-: |\n| A kayak for two people | 12 |\n"
    )
    html = cited(f"A tandem costs 3 crowns [1].\n\n1. Fares, {ADDRESS}", **{ADDRESS: text})
    passage = html.partition("<q>")[2].partition("</q>")[0]
    assert "<mark>A tandem costs 3 crowns, see the list.</mark>" in passage
    assert passage.partition("</mark>")[2].startswith(" Dogs call __exit__.")
    row = cited(f"A kayak for two people costs 12 [1].\n\n1. Fares, {ADDRESS}", **{ADDRESS: text})
    assert "<mark>A kayak for two people · 12</mark>" in row


def test_passage_without_quoted_words_is_the_beginning() -> None:
    """If no sentence supports the statement, no words are marked."""
    before, quoted, _ = find_passage("Elephants sing at dawn.", TEXT)
    assert (before[:10], quoted) == ("The server", "")


@given(st.text(alphabet="[]1,2-<>&\"'`$ a.\n*_", max_size=80), st.text(alphabet="<>&\"'[]1 a.", max_size=40))
def test_any_text_is_harmless(text: str, title: str) -> None:
    """Marks and titles of any shape add only the elements of a citation."""
    report = f"{text} [1]\n\n1. {title} — https://e.org/a\n"
    citations = Citations(listed_sources(report), Evidence({"https://e.org/a": f"{title} {text}"}))
    html = citations.apply(MarkdownRenderer().html(report))
    assert [harm for harm in harms(html) if harm not in {"<b>", "<small>", "<q>", "<mark>"}] == []


A, B, C = (f"https://e.org/{name}" for name in "abc")


LIST = f"\n\n## Sources\n\n1. A: {A}\n2. B: {B}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X【1】【2†L3-L9】.", "X[1][2]."),
        ("X ［1］, 〔2〕, \\[1\\], [Source 1, 2].", "X [1], [2], [1], [1, 2]."),
        ("X [citation:1][Source 1, Source 2], [refs 1-2], [^1^], [[1]].", "X [1][1, 2], [1-2], [1], [1]."),
        (f"X [[1]]({A}), [2](#2), [1、2], [1 and 2], [#2], [网页1].", "X [1], [2], [1, 2], [1, 2], [2], [1]."),
        (
            "X [see [1]], [Source 9], [page 1], a[[0]] and [1 and a].",
            "X [see [1]], [Source 9], [page 1], a[[0]] and [1 and a].",
        ),
        (f"X [1]({A}), [2](https://e.org/other).", "X [1], [2](https://e.org/other)."),
        ("Herons², and<sup>1,2</sup> in 10 km², m<sup>2</sup>.", "Herons[2], and[1,2] in 10 km², m<sup>2</sup>."),
        ("Litre² and [1].", "Litre² and [1]."),
        ("`【1】`, $x^【1】$ and 【9】.", "`【1】`, $x^【1】$ and 【9】."),
    ],
)
def test_marks_of_models_become_plain(text: str, expected: str) -> None:
    """Only citations of listed sources are changed, and small raised numbers only in a text without other citations."""
    assert renumbered(text + LIST) == expected + LIST


@pytest.mark.parametrize(
    "heading",
    [
        "## Quellen",
        "**Références**",
        "Источники:",
        "### 📚 Sources",
        "# Literaturverzeichnis",
        "## 출처",
        "## Citations",
    ],
)
@pytest.mark.parametrize("entry", ["(1) A: ", "> [1] A ", "1\\. A ", "1. **A**\n   - URL: "])
def test_lists_of_models_are_found(heading: str, entry: str) -> None:
    """The heading may be in any language, and the address may be below the title."""
    (source,) = listed_sources(
        f"1. Do [this](https://e.org/x)\n2. Rest\n\nX [1].\n\n{heading}\n\n{entry}https://e.org/a\n"
    ).values()
    assert (source.number, source.title.strip(":"), source.address) == (1, "A", "https://e.org/a")


def test_footnotes_with_addresses_are_sources() -> None:
    """A footnote without an address does not change, nor does a text without sources."""
    report = f"X[^1] and Y[^2].[^3]\n\n[^1]: A, {A}\n[^2]: {B}\n[^3]: A note."
    assert renumbered(report) == f"X[1] and Y[2].[^3]\n\n[1] A, {A}\n[2] {B}\n[^3]: A note."
    assert renumbered("X【1】[^1]\n\n[^1]: A note.") == "X【1】[^1]\n\n[^1]: A note."


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (f"X [1], Y [3].\n\n1. A: {A}\n2. B: {B}\n3. A: {A}\n", f"X [1], Y [1].\n\n1. A: {A}\n2. B: {B}\n"),
        (f"X [1, 3] and [1][3].\n\n[1] A: {A}\n[3] A: {A}", f"X [1] and [1].\n\n[1] A: {A}\n"),
        (f"X [2-4].\n\n2. A: {A}\n3. B: {B}\n4. C: {C}", f"X [1, 2, 3].\n\n1. A: {A}\n2. B: {B}\n3. C: {C}"),
        (f"X [7] [9].\n\n- [7] A ({A})\n- [9] B ({B})", f"X [1][2].\n\n- [1] A ({A})\n- [2] B ({B})"),
        (
            f"`x[4]` and [4].\n```\ny[4]\n1. A: {A}\n```\n$z[4]$\n\n2. A: {A}\n   a note\n4. A: {A}\n   b note\nEnd.",
            f"`x[4]` and [1].\n```\ny[4]\n1. A: {A}\n```\n$z[4]$\n\n1. A: {A}\n   a note\nEnd.",
        ),
    ],
)
def test_an_address_gets_one_number(report: str, expected: str) -> None:
    """Duplicates and gaps disappear from the list and the citations, but not from code and formulas."""
    assert renumbered(report) == expected
    assert renumbered(expected) == expected


@pytest.mark.parametrize(
    "report",
    [
        "No list [1] and [2].",
        f"In order [1] [2].\n\n1. A: {A}\n2. B: {B}\n",
        f"A number that is not listed [5], so [1] is not clear.\n\n1. A: {A}\n3. A: {A}\n",
        f"Two sources with one number [1].\n\n1. A: {A}\n1. B: {B}\n3. A: {A}\n",
        f"[A link](https://e.org), [1](https://e.org/1) and [2].\n\n1. A: {A}\n2. B: {B}\n",
    ],
)
def test_correct_or_ambiguous_report_is_unchanged(report: str) -> None:
    """A report is unchanged if its numbers are correct, or if new numbers could cite another source."""
    assert renumbered(report) == report


@given(st.lists(st.tuples(st.integers(1, 30), st.sampled_from([A, B, C])), min_size=1, unique_by=lambda item: item[0]))
def test_each_citation_cites_the_same_address(entries: list[tuple[int, str]]) -> None:
    """Renumbering keeps the address that each citation cites; the numbers are 1, 2, 3 afterwards."""
    report = "".join(f"Claim [{number}].\n\n" for number, _ in entries)
    report += "".join(f"{number}. Title: {address}\n" for number, address in entries)
    after = renumbered(report)
    listed = listed_sources(after)
    cited = [listed[int(number)].address for number in re.findall(r"Claim \[(\d+)\]", after)]
    assert cited == [address for _, address in entries]
    assert list(listed) == list(range(1, len({address for _, address in entries}) + 1))


@pytest.mark.parametrize(
    ("report", "answer", "expected"),
    [
        (f"X [1], Y [2].\n\n1. A: {A}\n2. B: {B}", f"Y [1].\n\n1. B: {B}", f"Y [2].\n\n- [2] B: {B}"),
        (
            f"X [1], Y [2].\n\n1. A: {A}\n2. B: {B}",
            f"Z [1], Y [2], X [3].\n\n1. C: {C}\n2. B: {B}\n   a note\n3. A: {A}",
            f"Z [3], Y [2], X [1].\n\n- [3] C: {C}\n- [2] B: {B}\n   a note\n- [1] A: {A}",
        ),
        (f"X [1], Y [2].\n\n1. A: {A}\n2. B: {B}", f"X【1†L3】.\n\n[1] A: {A}", f"X[1].\n\n[1] A: {A}"),
        (f"X [1], Y [2].\n\n1. A: {A}\n2. B: {B}", f"Y [1].\n\n[1] B: {B}", f"Y [2].\n\n[2] B: {B}"),
        # Without a list an answer cites that of the report, as the model numbered it.
        (f"X [2], Y [3].\n\n2. A: {A}\n3. B: {B}", "X [2], Y [3], `[3]`.", "X [1], Y [2], `[3]`."),
        (f"X [2], Y [3].\n\n2. A: {A}\n3. B: {B}", "X [2], Y [4].", "X [2], Y [4]."),
        ("No list [1].", f"X [2].\n\n2. A: {A}", f"X [1].\n\n1. A: {A}"),
    ],
)
def test_an_answer_has_the_numbers_of_the_report(report: str, answer: str, expected: str) -> None:
    assert renumbered(report, answer) == expected
    assert renumbered(report, answer, expected) == expected
    assert [*listed_sources(expected)] == [int(n) for n in re.findall(r"^\W*(\d)\W", expected, re.MULTILINE)]


def test_an_ambiguous_report_gives_no_numbers_to_the_answer() -> None:
    ambiguous = f"X [5].\n\n1. A: {A}\n2. B: {B}"
    assert renumbered(ambiguous, f"Y [1].\n\n1. B: {B}") == f"Y [1].\n\n1. B: {B}"


@pytest.mark.timed
def test_a_long_report_is_renumbered_quickly() -> None:
    """A report of 50 KB with 60 entries and 600 citations takes less than 20 ms of CPU."""
    claims = [f"A claim with some words and `code[{n % 60 + 1}]`, $x_{n}$ [{n % 60 + 1}]." for n in range(600)]
    report = "\n\n".join(f"{claim} {'Words about it. ' * 2}" for claim in claims) + "\n\n"
    report += "\n".join(f"{n}. Title {n}: https://e.org/{n % 40}" for n in range(1, 61))
    assert len(report) > 50_000
    for attempt in within(0.02):
        with attempt:
            after = renumbered(report)
    assert len(listed_sources(after)) == 40
