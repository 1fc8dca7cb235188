"""Claims that cite the result of a query: their figures against the cells of the result."""

from pathlib import Path

import pandas as pd
import pytest

import artifactflow_nb as af
from artifactflow_nb.plugins.claims.prose import split_claims
from artifactflow_nb.plugins.claims.versions import check_computed

RESULT = """4 rows. Cite the figures as [data:c-1a2b3c].

| site | slope | n | share |
| --- | --- | --- | --- |
| Kappa | 0.0421 | 120 | 0.35 |
| Lambda | 0.0117 | 80 | 0.23 |
| Mu | -0.0032 | 1204 | 0.42 |
| Nu | NULL | 7 | 0 |
"""


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Kappa warmed by 0.042 °C a year since 2019 [data:c-1a2b3c].", "supported"),
        ("Kappa 站点每年升温 0.042 度 [data:c-1a2b3c]。", "supported"),
        ("The share of Kappa is 35 %.", "supported"),
        ("Mu has an n of 1,204.", "supported"),
        ("Kappa warmed about 3.6 times as fast as Lambda.", "supported"),
        ("The sum of n is 1,411.", "supported"),
        ("The share of Kappa is 53 %.", "contradicted"),
        ("Lambda has a slope of 0.0421.", "contradicted"),
        ("Lambda warmed by 0.0421 a year.", "unsupported"),
        ("Mu has 1,240 casts.", "unsupported"),
        ("Nowhere had 1,204 casts.", "uncheckable"),
        ("Kappa warmed fastest of the four sites.", "uncheckable"),
    ],
)
def test_figures_are_compared_with_the_cells_of_the_result(text: str, status: str) -> None:
    assert check_computed(split_claims(text)[0], [("data:c-1a2b3c", RESULT)]).status == status


def test_report_that_cites_a_result_is_checked_against_the_result(tmp_path: Path) -> None:
    casts = pd.DataFrame({"site": ["Kappa", "Mu", "Kappa", "Mu"], "temp": [1.25, 2.5, 2.5, 4.75]})
    sql = "SELECT site, avg(temp) AS mean FROM casts GROUP BY site ORDER BY site"
    turns: list[af.ToolCall | str] = [af.ToolCall("query_data", {"sql": sql, "title": "Means"}), "Mu is warmer."]
    model = af.ScriptedModel(lambda _request: turns.pop(0))
    with af.Workbench(model=model, data_dir=tmp_path, approvals="approve", interactive=False) as wb:
        wb.data.share(casts=casts)
        first = wb.ask("Which site is warmer?").wait()
        evidence_id = wb.data.evidence(first)[0].result.evidence_id
        lines = [f"The mean of Mu is 3.625 [{evidence_id}].", f"The mean of Kappa is 1.785 [{evidence_id}]."]
        report = {"id": "report", "title": "Means", "content": "\n\n".join([*lines, "Otters sleep [data:c-000000]."])}
        turns.extend([af.ToolCall("create_artifact", report), "See the report."])
        run = wb.ask("Write it down.", conversation_id=first).wait()
        claims = wb.claims_df(run)
        assert claims["status"].tolist() == ["supported", "contradicted", "unchecked"]
        assert claims["kind"].tolist() == ["computed"] * 3
        assert claims["method"].tolist()[:2] == ["computed", "computed"]
        assert claims.iloc[1]["reason"] == "1.875 there."
        assert claims.iloc[0]["quote"] == f"{evidence_id}, row Mu, column mean: 3.625"
