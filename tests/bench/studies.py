"""Costs of studies: `python tests/bench/studies.py`.

The same runs, asked singly, and requests of the bare `openai` client are measured alternately in the same process. The
card and the frame of 10,000 cells are compared with a second.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

from bench.figures import Figure, print_all
from openai import AsyncOpenAI
from support.chat_endpoint import Answer, ChatProcess

import artifactflow_nb as af
from artifactflow_nb.notebook.workbench import Workbench

ROUNDS = 3
AT_ONCE = 64
N_INSTANT = 500
N_PACED = 256
N_LARGE = 10_000


def questions(n: int) -> list[str]:
    return [f"Question {number}?" for number in range(n)]


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """CPU and time of a call, in milliseconds."""
    cpu, started = time.process_time(), time.perf_counter()
    work()
    return (time.process_time() - cpu) * 1_000, (time.perf_counter() - started) * 1_000


def workbench(model: af.ScriptedModel | af.OpenAIModel) -> Workbench:
    wb = af.Workbench(model=model, data_dir=tempfile.mkdtemp(), interactive=False)
    wb.ask("Warm up.").wait()
    wb.studies.start(["Warm up?"], name="warm").wait().grade(af.graders.contains("question"))
    return wb


def instant() -> af.ScriptedModel:
    return af.ScriptedModel(lambda _request: "It is so.")


def ask_singly(wb: Workbench, n: int) -> None:
    for run in [wb.ask(question, clarify="never") for question in questions(n)]:
        run.wait()


def single_round() -> float:
    """CPU of runs that are asked singly, per run."""
    with workbench(instant()) as wb:
        return measured(lambda: ask_singly(wb, N_INSTANT))[0] / N_INSTANT


def study_round() -> tuple[float, float]:
    """CPU of a study of the same runs, and the same with grades, per run."""
    with workbench(instant()) as wb:
        cells, _ = measured(lambda: wb.studies.start(questions(N_INSTANT), name="study", at_once=AT_ONCE).wait())
        grades, _ = measured(lambda: wb.studies["study"].grade(af.graders.contains("question")))
        return cells / N_INSTANT, (cells + grades) / N_INSTANT


def large_study() -> tuple[float, float]:
    """CPU of the frame and the card of a large study."""
    with workbench(instant()) as wb:
        study = wb.studies.start(questions(N_LARGE), name="large", at_once=AT_ONCE).wait()
        return measured(lambda: study.df)[0], measured(study._repr_html_)[0]


def bare(base_url: str) -> float:
    """Time of requests of the bare client."""

    async def request(client: AsyncOpenAI, places: asyncio.Semaphore) -> None:
        async with places:
            stream = await client.chat.completions.create(
                model="quick", messages=[{"role": "user", "content": "Who?"}], stream=True
            )
            async for _ in stream:
                pass

    async def requests() -> None:
        async with AsyncOpenAI(base_url=base_url, api_key="none") as client:
            places = asyncio.Semaphore(AT_ONCE)
            await asyncio.gather(*(request(client, places) for _ in range(N_PACED)))

    return measured(lambda: asyncio.run(requests()))[1] / N_PACED


def paced_round(base_url: str) -> float:
    """Time of a study with the same requests."""
    with workbench(af.OpenAIModel(base_url, None, "quick")) as wb:
        cells = questions(N_PACED)
        return measured(lambda: wb.studies.start(cells, name="paced", at_once=AT_ONCE).wait())[1] / N_PACED


def instant_figures() -> list[Figure]:
    rounds = [(single_round(), study_round()) for _ in range(ROUNDS)]
    singles = statistics.median(single for single, _ in rounds)
    cells, graded = (statistics.median(costs[side] for _, costs in rounds) for side in (0, 1))
    return [
        Figure("study: CPU of a cell / of the same run", cells, singles, "ms", 1.05),
        Figure("study: CPU of a cell with a grade", graded, singles, "ms", 1.15),
    ]


def paced_figures() -> list[Figure]:
    with ChatProcess({"quick": [Answer("word " * 40, chunk_chars=0, delay_s=0.01)]}) as base_url:
        rounds = [(bare(base_url), paced_round(base_url)) for _ in range(ROUNDS)]
    floor, cell = (statistics.median(pair[side] for pair in rounds) for side in (0, 1))
    return [Figure(f"study: {AT_ONCE} at once, time of a cell", cell, floor, "ms", round(1 / 0.85, 2))]


def large_figures() -> list[Figure]:
    frame, card = large_study()
    return [
        Figure(f"study: CPU of the frame of {N_LARGE:,} cells", frame, 1_000, "ms", 1.0),
        Figure(f"study: CPU of the card of {N_LARGE:,} cells", card, 1_000, "ms", 1.0),
    ]


async def figures() -> AsyncIterator[Figure]:
    """The figures of studies in one process, measured in a thread, because a workbench waits for its engine."""
    for section in (instant_figures, paced_figures, large_figures):
        for figure in await asyncio.to_thread(section):
            yield figure


if __name__ == "__main__":
    sys.exit(not asyncio.run(print_all(figures())))
