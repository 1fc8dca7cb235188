"""60 streams at an endpoint's pace: what they cost, and whether the event loop stays free for clicks and other runs.

Each stream has 100 chunks, 20 a second, and they start one after the other, spread over a second, so that chunks of all
of them arrive in between. A sampler on the engine's loop sleeps for 5 ms again and again; how much later than that it
wakes is the loop's lag.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from bench.figures import Figure
from bench.streams import through_client
from openai import AsyncOpenAI
from support.chat_endpoint import Answer, ChatProcess

from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings

STREAMS = 60
CHUNKS = 100
PER_SECOND = 20
LAG_MS = 30
MODEL = "paced"

_PIECE = "sixteen letters "
_SAMPLE_S = 0.005
_ROUNDS = 3


async def figures() -> AsyncIterator[Figure]:
    """The loop's lag while runs stream, and the CPU of a run against that of a stream of the bare client."""
    answer = Answer(_PIECE * CHUNKS, delay_s=1 / PER_SECOND)
    async with AsyncExitStack() as stack:
        base_url = stack.enter_context(ChatProcess({MODEL: [answer]}))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        client = await stack.enter_async_context(AsyncOpenAI(base_url=base_url, api_key="k", max_retries=0))
        settings = Settings.load(data_dir=folder, base_url=base_url, api_key="k", model=MODEL)
        engine = await stack.enter_async_context(Engine(settings))
        await engine.controller.execute("question")
        await bare(client)
        rounds = [(await _round(lambda: bare(client)), await _round(lambda: run(engine))) for _ in range(_ROUNDS)]
    lag_ms = min(lag for _, (_, lag) in rounds)
    floor_ms, run_ms = (statistics.median(pair[side][0] for pair in rounds) for side in (0, 1))
    yield Figure(f"{STREAMS} paced runs: loop lag, 99th percentile", lag_ms, LAG_MS, "ms", 1.0)
    yield Figure(f"{STREAMS} paced runs: CPU of a run / of a stream", run_ms, floor_ms, "ms", 1.0)


async def bare(client: AsyncOpenAI) -> None:
    """Read one stream of the bare client to its end."""
    if (n_pieces := await through_client(client, MODEL)) != CHUNKS:
        raise AssertionError(f"{n_pieces} pieces came.")


async def run(engine: Engine) -> None:
    """One run, with a subscriber that gets every chunk."""
    events = [event async for event in engine.controller.stream_execute("question")]
    if sum(event.type == "llm_chunk" for event in events) != CHUNKS:
        raise AssertionError(f"{len(events)} events came.")


async def _round(stream: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """All streams, staggered: CPU milliseconds of this process per stream, and the loop's lag in ms."""
    lags: list[float] = []
    sampler = asyncio.create_task(sample(lags))
    started = time.process_time()
    await asyncio.gather(*(_later(index / STREAMS, stream) for index in range(STREAMS)))
    cpu_ms = (time.process_time() - started) * 1000 / STREAMS
    sampler.cancel()
    with suppress(asyncio.CancelledError):
        await sampler
    return cpu_ms, statistics.quantiles(lags, n=100)[-1]


async def _later(delay_s: float, stream: Callable[[], Awaitable[None]]) -> None:
    await asyncio.sleep(delay_s)
    await stream()


async def sample(lags: list[float]) -> None:
    """Measure the lag of a loop in ms again and again, until it is cancelled."""
    while True:
        started = time.perf_counter()
        await asyncio.sleep(_SAMPLE_S)
        lags.append((time.perf_counter() - started - _SAMPLE_S) * 1000)
