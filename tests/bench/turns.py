"""The cost of a turn without tools beyond the bare `openai` client, alone and with many at once.

The server runs in a process of its own and answers at once, with one sentence (3 chunks) or a paragraph (30); both
sides send a question under the engine's own system prompt and take the same answer. The engine's side stores
everything: message, run, prompt, reply, events, checkpoints.

- The fixed cost of a turn: CPU of this process for one `execute`, minus that of one streamed completion, with the
  sentence; the median of many that take turns.
- The rate: 200 runs begun at the same moment against 200 completions begun at the same moment, in runs per second of
  wall time. Both clients may open as many connections as the `openai` client does by default. The two sides take turns,
  and each round gives a ratio, so that whatever else this machine does slows both; the figure is the rounds' median.
"""

import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from bench.figures import Figure, cpu_seconds
from openai import AsyncOpenAI
from support.chat_endpoint import Answer, ChatProcess

from artifactflow_nb.agents.base import PromptContext
from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings

SENTENCE = "The with statement calls __exit__ in any case."
ANSWERS = {"sentence": SENTENCE, "paragraph": f"{SENTENCE} " * 10}
AT_ONCE = 200
FIXED_MS = 15
RATE = 0.7

_TURNS = 60
_ROUNDS = 9


async def figures() -> AsyncIterator[Figure]:
    """The fixed cost of a turn, and the rate of many."""
    async with AsyncExitStack() as stack:
        base_url = stack.enter_context(ChatProcess({name: [Answer(text)] for name, text in ANSWERS.items()}))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        client = await stack.enter_async_context(AsyncOpenAI(base_url=base_url, api_key="k", max_retries=0))
        for name, text in ANSWERS.items():
            settings = Settings.load(data_dir=folder / name, base_url=base_url, api_key="k", model=name)
            engine = await stack.enter_async_context(Engine(settings))
            floor, turn = partial(completion, client, system_prompt(engine), name), partial(run, engine, text.strip())
            if name == "sentence":
                seconds = await cpu_seconds({"floor": floor, "turn": turn}, repeats=_TURNS)
                beyond_ms = (seconds["turn"] - seconds["floor"]) * 1000
                yield Figure("turn without tools: CPU beyond the client", beyond_ms, FIXED_MS, "ms", 1.0)
            bare_s, runs_s = await _at_once(floor, turn)
            label = f"{AT_ONCE} runs at once, a {name}: run / completion"
            yield Figure(label, runs_s * 1000, bare_s * 1000, "ms", 1 / RATE)


def system_prompt(engine: Engine) -> str:
    """The prompt of the engine before the question, so that the bare client sends as much."""
    context = PromptContext(SystemClock().now())
    return engine.lead.build_complete_system_prompt(context)


async def completion(client: AsyncOpenAI, system: str, model: str) -> None:
    """One streamed completion of the bare client."""
    stream = await client.chat.completions.create(
        model=model,
        messages=[{"role": "system", "content": system}, {"role": "user", "content": "question"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    if text != ANSWERS[model]:
        raise AssertionError(f"The client read {text!r}.")


async def run(engine: Engine, answer: str) -> None:
    """One turn of the engine."""
    result = await engine.controller.execute("question")
    if result.response != answer:
        raise AssertionError(f"The run is {result.status}: {result.error_message or result.response!r}")


async def _at_once(floor: Callable[[], Awaitable[None]], turn: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Seconds of wall time for one of many completions, and for one of many runs, in the round of the median ratio."""
    rounds: list[tuple[float, float]] = []
    for number in range(_ROUNDS + 1):
        pair = await _each(floor), await _each(turn)
        if number:
            rounds.append(pair)
    rounds.sort(key=lambda pair: pair[1] / pair[0])
    return rounds[statistics.median_low(range(_ROUNDS))]


async def _each(side: Callable[[], Awaitable[None]]) -> float:
    gc.collect()
    started = time.perf_counter()
    await asyncio.gather(*(side() for _ in range(AT_ONCE)))
    return (time.perf_counter() - started) / AT_ONCE
