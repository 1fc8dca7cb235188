"""Costs of studies as ratios: `python tests/bench/studies.py [CELLS]`.

The same runs, asked singly, and requests of the bare `openai` client are measured alternately in the same process.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

from openai import AsyncOpenAI
from support.chat_endpoint import Answer, ChatProcess

import artifactflow_nb as af
from artifactflow_nb.notebook.workbench import Workbench

ROUNDS = 3
AT_ONCE = 64
N_PACED = 128


def questions(n: int) -> list[str]:
    return [f"Question {number}?" for number in range(n)]


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """CPU and time of a call, in seconds."""
    cpu, started = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - started


def workbench(model: af.ScriptedModel | af.OpenAIModel) -> Workbench:
    wb = af.Workbench(model=model, data_dir=tempfile.mkdtemp(), interactive=False)
    wb.ask("Warm up.").wait()
    return wb


def ask_singly(wb: Workbench, n: int) -> None:
    for run in [wb.ask(question, clarify="never") for question in questions(n)]:
        run.wait()


def instant(n: int) -> Iterator[str]:
    """Instant replies: the CPU of a study over that of the same runs, and the CPU of its frame and card."""
    ratios = []
    for _ in range(ROUNDS):
        with workbench(af.ScriptedModel(lambda _request: "It is so.")) as wb:
            single, _ = measured(lambda wb=wb: ask_singly(wb, n))
        with workbench(af.ScriptedModel(lambda _request: "It is so.")) as wb:
            cells, _ = measured(lambda wb=wb: wb.studies.start(questions(n), name="study", at_once=AT_ONCE).wait())
            study = wb.studies["study"]
            frame, _ = measured(lambda study=study: study.df)
            card, _ = measured(study._repr_html_)
        ratios.append(cells / single)
    yield f"{n:,} cells: CPU of a study / of the same runs: {statistics.median(ratios):.2f} (target 1.05)"
    yield f"{n:,} cells: frame {frame:.2f} s, card {card:.2f} s"


def paced() -> Iterator[str]:
    """A paced endpoint and 64 at once: runs a second over requests a second of the bare client."""
    with ChatProcess({"quick": [Answer("word " * 40, chunk_chars=0, delay_s=0.01)]}) as base_url:

        async def request(client: AsyncOpenAI, places: asyncio.Semaphore) -> None:
            async with places:
                stream = await client.chat.completions.create(
                    model="quick", messages=[{"role": "user", "content": "Who?"}], stream=True
                )
                async for _ in stream:
                    pass

        async def bare() -> None:
            async with AsyncOpenAI(base_url=base_url, api_key="none") as client:
                places = asyncio.Semaphore(AT_ONCE)
                await asyncio.gather(*(request(client, places) for _ in range(N_PACED)))

        ratios = []
        for _ in range(ROUNDS):
            _, floor = measured(lambda: asyncio.run(bare()))
            with workbench(af.OpenAIModel(base_url, None, "quick")) as wb:
                _, seconds = measured(
                    lambda wb=wb: wb.studies.start(questions(N_PACED), name="paced", at_once=AT_ONCE).wait()
                )
            ratios.append(floor / seconds)
    ratio = statistics.median(ratios)
    yield f"{AT_ONCE} at once: runs a second of a study / of the bare client: {ratio:.2f} (target 0.85)"


if __name__ == "__main__":
    for figure in (*instant(int(sys.argv[1]) if sys.argv[1:] else 1_000), *paced()):
        print(figure)
