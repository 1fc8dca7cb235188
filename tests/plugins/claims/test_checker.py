"""The checker of claims: statuses, methods and places, in English and Chinese."""

import pytest

from artifactflow_nb.plugins.claims.checker import check
from artifactflow_nb.plugins.claims.prose import split_claims
from artifactflow_nb.plugins.claims.sources import Source

SOURCE = (
    "The survey took 9,340 casts in 2021 at the northern site. Herring made up 45 % of the catch and cod 32 %.\n"
    "The mean temperature rose by 1.2 °C between 1990 and 2020. "
    "The reserve covers 12 km² and was opened on 3 May 2014.\n\n"
    "Sea ice melted faster in the east than in the west. The paper was written by Nora Lind in Bergen.\n\n"
    "该湖面积为三百二十平方公里，平均水深12.5米。2020年共采集样本3.2万份，其中45%来自北部，32%来自南部。水温上升了1.2度。"
)


@pytest.mark.parametrize(
    ("claim", "status", "method"),
    [
        ("The survey took 9,340 casts in 2021 at the northern site.", "supported", "words"),
        ("The survey took about 9,300 casts.", "supported", "words"),
        ("The reserve covers 1,200 hectares.", "supported", "words"),
        ("该湖面积为320平方公里。", "supported", "words"),
        ("Cod made up 32 % of the catch.", "uncheckable", ""),
        ("The survey took 9,430 casts in 2021.", "contradicted", "figures"),
        ("Herring made up 32 % of the catch and cod 45 %.", "contradicted", "figures"),
        ("Cod made up 45 % of the catch.", "contradicted", "figures"),
        ("The reserve covers 12 ha.", "contradicted", "figures"),
        ("The reserve was opened on 3 May 2015.", "contradicted", "figures"),
        ("45%的样本来自南部。", "contradicted", "figures"),
        ("2020年共采集样本2.3万份。", "contradicted", "figures"),
        ("The mean temperature fell by 1.2 °C between 1990 and 2020.", "contradicted", "order"),
        ("Sea ice melted faster in the west than in the east.", "contradicted", "order"),
        ("The ferry leaves at 9.", "unsupported", "figures"),
        ("The lake is deep and cold.", "uncheckable", ""),
    ],
)
def test_claim_is_compared_with_its_source(claim: str, status: str, method: str) -> None:
    verdict = check(claim, [SOURCE])
    assert (verdict.status, verdict.method) == (status, method), verdict


def test_verdict_shows_the_passage_and_its_place() -> None:
    verdict = check("The survey took 9,430 casts in 2021.", [Source(SOURCE, "notes.md")])
    assert SOURCE[verdict.start : verdict.end] == verdict.quote
    assert verdict.quote.startswith("The survey took 9,340 casts")
    assert (verdict.address, verdict.reason) == ("notes.md", "9,340 there, not 9,430.")


def test_block_quote_that_is_not_verbatim_is_contradicted() -> None:
    right, wrong = split_claims(
        "> Sea ice melted faster in the east\n> than in the west.\n\n> Sea ice melted later in the east."
    )
    assert check(right, [SOURCE]).status == "supported"
    assert (check(wrong, [SOURCE]).status, check(wrong, [SOURCE]).method) == ("contradicted", "quotes")


def test_claim_without_a_source_is_unsupported_and_an_empty_source_leaves_it_unchecked() -> None:
    assert check("It has 9 rooms.", []).status == "unsupported"
    assert check("It has 9 rooms.", [" "]).status == "unchecked"


def test_one_source_that_supports_a_claim_is_enough() -> None:
    assert check("The reserve covers 12 km².", ["Nothing about 5 km.", SOURCE]).status == "supported"
