"""One number for each source of a report."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu_time import within

from artifactflow_nb.sources.citation_marks import listed_sources, renumber_sources

A, B, C = (f"https://e.org/{name}" for name in "abc")


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
    """Duplicates and gaps go, in the list and in the citations, but not in code and formulas."""
    assert renumber_sources(report) == expected
    assert renumber_sources(expected) == expected


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
def test_a_report_that_is_right_or_not_clear_is_unchanged(report: str) -> None:
    """Nothing is changed if nothing has to be, or if a change could cite another source."""
    assert renumber_sources(report) == report


@given(st.lists(st.tuples(st.integers(1, 30), st.sampled_from([A, B, C])), min_size=1, unique_by=lambda item: item[0]))
def test_each_citation_cites_the_same_address(entries: list[tuple[int, str]]) -> None:
    """Whatever the numbers were, the cited addresses are the same after it, and the numbers are 1, 2, 3."""
    report = "".join(f"Claim [{number}].\n\n" for number, _ in entries)
    report += "".join(f"{number}. Title: {address}\n" for number, address in entries)
    after = renumber_sources(report)
    listed = listed_sources(after)
    cited = [listed[int(number)].address for number in re.findall(r"Claim \[(\d+)\]", after)]
    assert cited == [address for _, address in entries]
    assert list(listed) == list(range(1, len({address for _, address in entries}) + 1))


def test_a_long_report_is_renumbered_quickly() -> None:
    """A report of 50 KB with 60 entries and 600 citations takes less than 20 ms of CPU."""
    claims = [f"A claim with some words and `code[{n % 60 + 1}]`, $x_{n}$ [{n % 60 + 1}]." for n in range(600)]
    report = "\n\n".join(f"{claim} {'Words about it. ' * 2}" for claim in claims) + "\n\n"
    report += "\n".join(f"{n}. Title {n}: https://e.org/{n % 40}" for n in range(1, 61))
    assert len(report) > 50_000
    for attempt in within(0.02):
        with attempt:
            after = renumber_sources(report)
    assert len(listed_sources(after)) == 40
