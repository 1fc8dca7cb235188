"""Questions about data: what the tool answers is what pandas computes, to the last digit or within a relative 1e-12."""

import asyncio
import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from math import isclose
from typing import Any

import numpy as np
import pandas as pd
import pytest

from artifactflow_nb.plugins.data.process import QueryProcess
from artifactflow_nb.plugins.data.snapshot import SharedFrame

N = 400
_RANDOM = np.random.default_rng(11)
CASTS = pd.DataFrame(
    {
        "site": _RANDOM.choice(["Alder", "Birch", "Cedar", "Elm's"], N),
        "year": _RANDOM.integers(2015, 2026, N),
        "day": pd.date_range("2015-01-01", periods=N, freq="10D"),
        "temp": np.round(_RANDOM.normal(8, 3, N), 2),
        "depth": pd.array(_RANDOM.integers(1, 90, N), dtype="Int64"),
        "is_ice": _RANDOM.random(N) < 0.2,
    }
)
CASTS.loc[::17, "temp"] = np.nan
CASTS.loc[::23, "depth"] = pd.NA
STATIONS = pd.DataFrame({"site": ["Alder", "Birch", "Cedar", "Fir"], "lat": [60.5, 61.25, -3.0, 0.0]})
SALES = pd.DataFrame(
    {
        "产品": ["茶", "茶", "咖啡", "水", None],
        "unit price": [Decimal("12.10"), Decimal("0.05"), Decimal("3.333"), None, Decimal("12345678901234567.89")],
        "sold": pd.to_datetime(
            ["2024-03-31 00:30", "2024-03-31 03:30", "2024-10-27", "2024-12-31", "2025-01-01"], format="ISO8601"
        ),
        "n": [2**62, 2**62, 7, -3, 0],
        "took": pd.to_timedelta([90, 30, None, 0, 60], unit="s"),
    }
)
SALES["local"] = SALES["sold"].dt.tz_localize("Europe/Berlin")
FRAMES = [
    SharedFrame.of(name, frame, "rows") for name, frame in (("casts", CASTS), ("stations", STATIONS), ("sales", SALES))
]
JOINED = CASTS.merge(STATIONS, on="site")
BY_SITE = CASTS.groupby("site")

QUESTIONS: list[tuple[str, Any]] = [
    ("SELECT count(*) FROM casts", N),
    ("SELECT count(temp), count(*) - count(temp) FROM casts", [CASTS.temp.count(), CASTS.temp.isna().sum()]),
    ("SELECT avg(temp) FROM casts", CASTS.temp.mean()),
    ("SELECT median(temp) FROM casts", CASTS.temp.median()),
    ("SELECT quantile_cont(temp, 0.9) FROM casts", CASTS.temp.quantile(0.9)),
    ("SELECT stddev(temp), var_pop(temp) FROM casts", [CASTS.temp.std(), CASTS.temp.var(ddof=0)]),
    ("SELECT sum(depth) FROM casts", int(CASTS.depth.sum())),
    ("SELECT sum(is_ice), avg(is_ice::INT) FROM casts", [CASTS.is_ice.sum(), CASTS.is_ice.mean()]),
    ("SELECT min(day), max(day) FROM casts", [CASTS.day.min().isoformat(), CASTS.day.max().isoformat()]),
    ("SELECT count(DISTINCT year) FROM casts", CASTS.year.nunique()),
    ("SELECT site, max(temp) FROM casts GROUP BY site ORDER BY site", BY_SITE.temp.max().reset_index()),
    (
        "SELECT site, count(*) FROM casts GROUP BY site ORDER BY 2 DESC, 1 LIMIT 1",
        next(iter(sorted(BY_SITE.size().items(), key=lambda item: -item[1]))),
    ),
    ("SELECT corr(temp, depth) FROM casts", CASTS.temp.corr(CASTS.depth.astype(float))),
    ("SELECT regr_slope(temp, year) FROM casts", np.polyfit(*CASTS[["year", "temp"]].dropna().T.to_numpy(), 1)[0]),
    ("SELECT count(*) FROM casts WHERE temp > 8 AND NOT is_ice", ((CASTS.temp > 8) & ~CASTS.is_ice).sum()),
    ("SELECT count(*) FROM casts WHERE temp IS NULL OR depth IS NULL", (CASTS.temp.isna() | CASTS.depth.isna()).sum()),
    ("SELECT count(*) FROM casts WHERE site = 'Elm''s'", (CASTS.site == "Elm's").sum()),
    ("SELECT count(*) FROM casts JOIN stations USING (site)", len(JOINED)),
    ("SELECT avg(temp) FROM casts JOIN stations USING (site) WHERE lat > 0", JOINED[JOINED.lat > 0].temp.mean()),
    ("SELECT s.site FROM stations s ANTI JOIN casts USING (site)", "Fir"),
    ("SELECT DISTINCT c.site FROM casts c LEFT JOIN stations s USING (site) WHERE s.lat IS NULL", "Elm's"),
    (
        "SELECT year(day), avg(temp) FROM casts GROUP BY 1 ORDER BY 1",
        CASTS.groupby(CASTS.day.dt.year).temp.mean().reset_index(),
    ),
    (
        (
            "SELECT strftime(date_trunc('month', day), '%Y-%m') m, count(*) FROM casts GROUP BY m HAVING "
            "count(*) > 3 ORDER BY m"
        ),
        [[m, n] for m, n in CASTS.groupby(CASTS.day.dt.strftime("%Y-%m")).size().items() if n > 3],
    ),
    (
        (
            "SELECT site, year, temp FROM casts WHERE temp IS NOT NULL QUALIFY row_number() OVER (PARTITION BY "
            "site ORDER BY temp DESC) = 1 ORDER BY site"
        ),
        CASTS.loc[BY_SITE.temp.idxmax(), ["site", "year", "temp"]],
    ),
    (
        "SELECT temp - lag(temp) OVER (ORDER BY day) d FROM casts ORDER BY day LIMIT 3 OFFSET 1",
        [[x] for x in CASTS.temp.diff()[1:4]],
    ),
    ("SELECT sum(depth) OVER (ORDER BY day) FROM casts ORDER BY day DESC LIMIT 1", int(CASTS.depth.sum())),
    ("SELECT max(m) - min(m) FROM (SELECT avg(temp) m FROM casts GROUP BY site)", np.ptp(BY_SITE.temp.mean())),
    (
        "WITH t AS (SELECT site, avg(temp) m FROM casts GROUP BY site) SELECT arg_max(site, m) FROM t",
        BY_SITE.temp.mean().idxmax(),
    ),
    (
        "SELECT count(*) FROM casts a WHERE temp > (SELECT avg(temp) FROM casts b WHERE b.site = a.site)",
        (CASTS.temp > BY_SITE.temp.transform("mean")).sum(),
    ),
    (
        "SELECT * FROM (PIVOT casts ON is_ice IN (true, false) USING count(*) GROUP BY site) ORDER BY site",
        [[site, (g.is_ice).sum(), (~g.is_ice).sum()] for site, g in BY_SITE],
    ),
    (
        (
            "SELECT CASE WHEN depth < 30 THEN 'low' WHEN depth >= 30 THEN 'deep' END b, count(*) FROM casts "
            "GROUP BY b ORDER BY b NULLS LAST"
        ),
        [["deep", (CASTS.depth >= 30).sum()], ["low", (CASTS.depth < 30).sum()], [None, CASTS.depth.isna().sum()]],
    ),
    (
        "SELECT round(100.0 * count(*) FILTER (WHERE is_ice) / count(*), 3) FROM casts",
        round(100 * CASTS.is_ice.mean(), 3),
    ),
    ("SELECT string_agg(DISTINCT site, '|' ORDER BY site) FROM casts", "Alder|Birch|Cedar|Elm's"),
    (
        "SELECT site FROM casts UNION SELECT site FROM stations ORDER BY site",
        [[x] for x in sorted({*CASTS.site, *STATIONS.site})],
    ),
    ('SELECT "产品", count(*) FROM sales GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 1', ["茶", 2]),
    ('SELECT sum("unit price") FROM sales', "12345678901234583.373"),
    ('SELECT max("unit price"), min("unit price") FROM sales', ["12345678901234567.890", 0.05]),
    ("SELECT sum(n) FROM sales", str(2**63 + 4)),
    ("SELECT sum(epoch(took)), count(took) FROM sales", [180.0, 4]),
    ("SELECT local FROM sales ORDER BY local LIMIT 2", [["2024-03-30T23:30:00+00:00"], ["2024-03-31T01:30:00+00:00"]]),
    ("SELECT hour(local AT TIME ZONE 'Europe/Berlin') FROM sales ORDER BY local LIMIT 2", [[0], [3]]),
    ("SELECT count(*) FROM sales WHERE sold >= '2024-10-01' AND sold < '2025-01-01'", 2),
    ("SELECT date_diff('day', min(sold), max(sold)) FROM sales", 276),
    ("SELECT lat, lat / 0, sqrt(abs(lat)) FROM stations WHERE site = 'Cedar'", [-3.0, "-inf", 3**0.5]),
    ("SELECT 7 / 2, 7 // 2, 7 % 3, 1e3, round(2.345, 1)", [3.5, 3, 1, 1000.0, 2.3]),
    ("FROM range(5) r(i) SELECT sum(i), list(i ORDER BY i DESC)", [10, "[4, 3, 2, 1, 0]"]),
    ("SELECT day::DATE FROM casts ORDER BY day LIMIT 1 -- the first", dt.date(2015, 1, 1).isoformat()),
    ("SELECT 'x' WHERE false", []),
]


@pytest.fixture(scope="module")
def shared_process() -> Iterator[QueryProcess]:
    process = QueryProcess()
    yield process
    process.close()


def table(answer: Any) -> list[list[Any]]:
    """Return an answer as rows: a value is a row of one cell."""
    rows = answer.to_numpy().tolist() if isinstance(answer, pd.DataFrame) else answer
    rows = list(rows) if isinstance(rows, list | tuple) else [rows]
    return rows if not rows or isinstance(rows[0], list) else [rows]


def equal(cell: Any, other: Any) -> bool:
    if isinstance(cell, float) and isinstance(other, float | np.floating | int):
        return isclose(cell, other, rel_tol=1e-12)
    return bool(cell == other)


@pytest.mark.parametrize(("sql", "answer"), QUESTIONS, ids=[sql for sql, _ in QUESTIONS])
async def test_answer_is_exact(shared_process: QueryProcess, sql: str, answer: Any) -> None:
    shared_process._turn = asyncio.Lock()  # each test has an event loop of its own
    reply = await shared_process.request(FRAMES, "query", sql, 100, timeout_s=60)
    expected = [[None if value is pd.NA or value != value else value for value in row] for row in table(answer)]  # noqa: PLR0124 - NaN
    assert len(reply["rows"]) == len(expected)
    for row, other in zip(reply["rows"], expected, strict=True):
        assert all(map(equal, row, other)), (row, other)
