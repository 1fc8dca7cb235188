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
        ("The paper was written by Nora Lind in Oslo.", "unsupported", "names"),
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


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("Turnout rose by 5.5 percentage points.", "Turnout rose from 61.0% to 66.5%."),
        ("Turnout rose by 9.0%.", "Turnout rose from 61.0% to 66.5%."),
        ("The price fell by 20 euros in 2020.", "The price fell to 80 euros in 2020."),
        ("The state spent Rs 350,000 per school.", "The state spent Rs 3.5 lakh per school."),
        ("The dam cost Rs 12.5 billion.", "The dam cost Rs 1,250 crore."),
        ("CO2 reached 0.0419% in 2022.", "CO2 reached 419 ppm in 2022."),
        ("2022年全市财政收入为12.345亿元。", "2022年全市完成财政收入12亿3,450万元。"),
        ("The gauge is 1,435 mm.", "The gauge is 4 ft 8.5 in."),
        ("He said “[this] was the worst drought in years”.", "He said that it was the worst drought in years."),
        ("“[T]he river had been poisoned for decades.”", "They noted that the river had been poisoned for decades."),
        ("It says “the plan—which none had read—was adopted”.", "The plan – which none had read – was adopted."),
        (
            "It says “it was the largest in the North Sea”.",
            "It was the *largest* in the [North Sea](https://x.y/z).[3]",
        ),
        ("> 海平面上升了约六厘米,风险更大(见附录)。", "海平面上升了约六厘米，风险更大（见附录）。"),
        ("> The sea is not a warehouse.\n> — Nora Lind, 2014", "The sea is not a warehouse."),
        ("> **Note:** The figures are preliminary.", "The survey took 9,340 casts."),
        ("Ice melted faster in the east than in the west.", "Ice melted slower in the west than in the east."),
        ("Floods followed the drought in the valley.", "The drought was followed by floods in the valley."),
        ("> The server copies `raw/` and `v2/` at night.", "The server copies `raw/` and `v2/` at night."),
        ("It says “the server copies `raw/` and `v2/` at night”.", "The server copies `raw/` and `v2/` at night."),
        ("The World Health Organization declared an emergency.", "The WHO declared an emergency."),
    ],
)
def test_true_claim_in_other_words_is_not_contradicted(claim: str, source: str) -> None:
    """The claims have a change beside its start, a converted number, other quotation marks, or turned sides."""
    verdict = check(split_claims(claim)[0], [source])
    assert verdict.status in {"supported", "uncheckable", "unsupported"}, verdict


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("The drug reduced mortality in adults.", "There is no evidence that the drug reduced mortality in adults."),
        ("The dam caused the earthquake.", "The authors asked whether the dam caused the earthquake."),
        ("The bridge was opened in 2014.", "The bridge was to be opened in 2014."),
        ("Nora Lind died in Bergen in 1998.", "The brother of Nora Lind died in Bergen in 1998."),
        ("The ministry resigned in May 2012.", "The engineer who advised the ministry resigned in May 2012."),
        ("Sweden rejected the amendment.", "Sweden signed the treaty, while Norway rejected the amendment."),
        ("瑞典拒绝了修正案。", "瑞典签署了条约，挪威拒绝了修正案。"),
        ("The firm had 40 employees in 1999.", "The firm was founded in 1999 and had 40 employees in 2005."),
        ("Exports fell by 40 tonnes.", "Exports fell by a third to 40 tonnes."),
        ("Marta Berg said “we will not close the mine”.", "“We will not close the mine,” said Jens Holm."),
        ("It found that “the design was … suitable for use”.", "The design was, they found, not suitable for use."),
        ("It said “the reactor was [not] adequate for all loads”.", "The reactor was adequate for all loads."),
    ],
)
def test_words_that_a_source_denies_or_says_of_something_else_are_not_supported(claim: str, source: str) -> None:
    verdict = check(claim, [source])
    assert verdict.status != "supported", verdict


def test_name_with_initials_is_one_claim() -> None:
    claims = split_claims("It was described by J.R. Whitcombe in 2004. It has 4.2 mg/L. The end is near.")
    assert [claim.plain for claim in claims] == [
        "It was described by J.R. Whitcombe in 2004.",
        "It has 4.2 mg/L.",
        "The end is near.",
    ]
