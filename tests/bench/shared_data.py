"""Times of shared data: `python tests/bench/shared_data.py`. A group-by is compared with pandas in the same run."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import artifactflow_nb as af
from artifactflow_nb.plugins.data.process import QueryProcess
from artifactflow_nb.plugins.data.snapshot import SharedFrame

N_ROWS = 5_000_000
SQL = "SELECT k, avg(x), sum(y), count(*) FROM t GROUP BY k"
LONG = "SELECT sum(sqrt(a.range * b.range)) FROM range(8000) a, range(60000) b"


def median_ms(work: Callable[[], Any], n: int = 5) -> float:
    times = []
    for _ in range(n):
        started = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times)


async def time_queries(frame: pd.DataFrame) -> None:
    process = QueryProcess()
    shared = SharedFrame.of("t", frame, "rows")

    async def ask(sql: str, frames: list[SharedFrame]) -> float:
        started = time.perf_counter()
        await process.request(frames, "query", sql, 1000, timeout_s=60)
        return 1000 * (time.perf_counter() - started)

    print(f"start of the process and a first query: {await ask('SELECT 1', []):.0f} ms")
    handed_over = await ask("SELECT count(*) FROM t", [shared])
    print(f"hand-over of {N_ROWS:,} rows and a query: {handed_over:.0f} ms")
    small = [await ask("SELECT 1", [shared]) for _ in range(20)]
    print(f"a query of nothing, median: {statistics.median(small):.1f} ms")
    ours = statistics.median([await ask(SQL, [shared]) for _ in range(5)])
    pandas = median_ms(lambda: frame.groupby("k").agg(a=("x", "mean"), b=("y", "sum"), n=("x", "size")))
    print(f"group-by: {ours:.0f} ms, pandas {pandas:.0f} ms, ratio {ours / pandas:.2f}")
    process.close()


async def lags(until: Callable[[], bool]) -> list[float]:
    """Return the delays of a loop in ms, while a condition does not hold."""
    delays = []
    while not until():
        started = time.perf_counter()
        await asyncio.sleep(0.005)
        delays.append(1000 * (time.perf_counter() - started) - 5)
    return delays


def time_chat(frame: pd.DataFrame) -> None:
    call = af.ToolCall("query_data", {"sql": LONG, "title": "Long"})
    wb = af.Workbench(model=af.ScriptedModel([call, "Done.", call]), data_dir=tempfile.mkdtemp(), interactive=False)
    wb.data.share(t=frame)
    started = time.perf_counter()
    idle = sorted(wb._thread.call(lags(lambda: time.perf_counter() - started > 4)))
    print(f"delay of the idle loop, 99th percentile: {idle[len(idle) * 99 // 100]:.1f} ms")
    started = time.perf_counter()
    run = wb.ask("How long?")
    delays = sorted(wb._thread.call(lags(lambda: time.perf_counter() - started > 4)))
    run.wait()
    took_s = wb.tool_calls_df(run)["duration_ms"].iloc[0] / 1000
    print(
        f"delay of the loop during a query of {took_s:.1f} s, 99th percentile: {delays[len(delays) * 99 // 100]:.1f} ms"
    )
    run = wb.ask("How long?")
    time.sleep(1)
    started = time.perf_counter()
    run.cancel()
    run.wait()
    print(f"Stop of a running query: {1000 * (time.perf_counter() - started):.0f} ms")
    wb.close()


def main() -> None:
    random = np.random.default_rng(0)
    columns = {"k": random.integers(0, 1000, N_ROWS), "x": random.normal(size=N_ROWS), "y": random.normal(size=N_ROWS)}
    frame = pd.DataFrame(columns)
    print(f"sharing {N_ROWS:,} numeric rows: {median_ms(lambda: SharedFrame.of('t', frame, 'rows')):.2f} ms")
    print(f"fingerprint: {median_ms(lambda: SharedFrame.of('t', frame, 'rows').fingerprint, 3):.0f} ms")
    asyncio.run(time_queries(frame))
    time_chat(frame)


if __name__ == "__main__":
    main()
