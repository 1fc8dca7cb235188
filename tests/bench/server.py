"""What HTTP costs: a question, a chunk of a stream, and many readers of one run.

The readers are in a process of their own, so that only the server is measured:
`python -m bench.server ADDRESS THREAD N` reads the events of a run with N connections, and prints how many pieces of
text each got.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.figures import Figure
from bench.paced import sample
from support.chat_endpoint import Answer, ChatProcess
from support.http_server import Client, serving

import artifactflow_nb as af
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.server.app import API_PREFIX, EndingServer, make_app
from artifactflow_nb.server.bodies import ChatBody
from artifactflow_nb.server.lifecycle import RunLifecycle, open_lifecycle

QUESTIONS = 20
ONE, CHUNKS = 1, 2000
READERS = 100
LAG_MS = 30

_PIECE = "sixteen letters "
_ROUNDS = 5
_TESTS = Path(__file__).parents[1]
_PACED = "paced"

Side = Callable[[], None]


async def figures() -> AsyncIterator[Figure]:
    """Each figure, measured in threads, because the server and its engine have loops of their own."""
    for figure in await asyncio.to_thread(lambda: list(_figures())):
        yield figure


def _figures() -> Iterator[Figure]:
    answers = {str(size): [Answer(_PIECE * size)] for size in (ONE, CHUNKS)}
    answers[_PACED] = [Answer(_PIECE * 200, delay_s=0.02)]
    with ChatProcess(answers) as base_url, tempfile.TemporaryDirectory() as name:
        folder, endpoint = Path(name), {"base_url": base_url, "api_key": "k"}
        yield _question(folder)
        with ExitStack() as stack:
            sides: list[Side] = []
            for size in (ONE, CHUNKS):
                lifecycle = open_lifecycle(data_dir=folder / str(size), model=str(size), **endpoint)
                client = stack.enter_context(serving(lifecycle))
                sides += [partial(_bare, lifecycle, size), partial(_read, client)]
            yield _chunk(sides)
        lifecycle = open_lifecycle(data_dir=folder / _PACED, model=_PACED, **endpoint)
        lag_ms = asyncio.run(_many_readers(lifecycle))
        yield Figure(f"{READERS} readers of a run: loop lag, p99", lag_ms, LAG_MS, "ms", 1.0)


def _question(folder: Path) -> Figure:
    """The time until POST /chat is answered, against that of `wb.ask` in a workbench of its own."""
    ask_times, post_times = [], []
    with (
        af.Workbench(model=af.ScriptedModel(lambda _: "Yes."), data_dir=folder / "ask", interactive=False) as wb,
        serving(open_lifecycle(model=af.ScriptedModel(lambda _: "Yes."), data_dir=folder / "post")) as client,
    ):
        for _ in range(QUESTIONS):
            start = time.perf_counter()
            run = wb.ask("When does the ferry leave?")
            ask_times.append(time.perf_counter() - start)
            run.wait()
            start = time.perf_counter()
            body = client.ask("When does the ferry leave?")
            post_times.append(time.perf_counter() - start)
            list(client.events(body["thread_id"]))
    floor, value = (statistics.median(times) * 1000 for times in (ask_times, post_times))
    return Figure("POST /chat until 202 / wb.ask", value, floor, "ms", 3.0)


def _bare(lifecycle: RunLifecycle, size: int) -> None:
    """A run with a subscriber that does nothing."""

    async def run() -> int:
        events = lifecycle.thread.engine.controller.stream_execute("question")
        return sum([event.type is StreamEventType.LLM_CHUNK async for event in events])

    if (n_chunks := lifecycle.thread.call(run())) != size:
        raise AssertionError(f"{n_chunks} of {size} chunks came.")


def _read(client: Client) -> None:
    """A run with one reader over HTTP."""
    run = client.ask("question")
    command = [sys.executable, "-m", "bench.server", client.base_url, run["thread_id"], "1"]
    subprocess.run(command, cwd=_TESTS, check=True, stdout=subprocess.DEVNULL)


def _chunk(sides: list[Side]) -> Figure:
    """The processor time of a chunk: that of a run with many, without that of a run with one, on either side."""
    costs: list[list[float]] = [[] for _ in sides]
    for _ in range(_ROUNDS + 1):
        for side, seconds in zip(sides, costs, strict=True):
            start = time.process_time()
            side()
            seconds.append(time.process_time() - start)
    bare_one, read_one, bare, read = (statistics.median(seconds[1:]) * 1e6 for seconds in costs)
    per_chunk = (read - read_one) / (CHUNKS - ONE), (bare - bare_one) / (CHUNKS - ONE)
    return Figure("SSE: CPU per chunk / bare subscriber", *per_chunk, "us", 1.3)


async def _many_readers(lifecycle: RunLifecycle) -> float:
    """The lag of the loops of server and engine in ms, the larger one, while many readers follow a run."""
    ports: asyncio.Queue[int] = asyncio.Queue()
    server = EndingServer(make_app(lifecycle), lifecycle, "127.0.0.1", 0, ports.put_nowait)
    serving = asyncio.create_task(server.serve())
    address = f"http://127.0.0.1:{await ports.get()}"
    rounds = []
    for _ in range(_ROUNDS):
        run = await lifecycle.ask(ChatBody(content="question"))
        command = [sys.executable, "-m", "bench.server", address, run.thread_id, str(READERS)]
        readers = await asyncio.create_subprocess_exec(*command, cwd=_TESTS, stdout=asyncio.subprocess.DEVNULL)
        await asyncio.sleep(1)  # until they are connected: the run takes four seconds
        lags: tuple[list[float], list[float]] = [], []
        samplers = asyncio.create_task(sample(lags[0])), lifecycle.thread.submit(sample(lags[1]))
        if await readers.wait():
            raise AssertionError("The readers failed.")
        for sampler in samplers:
            sampler.cancel()
        rounds.append(max(statistics.quantiles(each, n=100)[-1] for each in lags))
    server.should_exit = True
    await serving
    return min(rounds)


async def read(address: str, thread_id: str) -> int:
    """Read the events of a run to the end; return how many pieces of text came."""
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {API_PREFIX}/stream/{thread_id} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    content = await reader.read()
    writer.close()
    if b"event: complete" not in content:
        raise AssertionError(content[-500:])
    return content.count(b"event: llm_chunk")


async def read_all(address: str, thread_id: str, n_readers: int) -> list[int]:
    """Read the events of a run with many connections."""
    return await asyncio.gather(*(read(address, thread_id) for _ in range(n_readers)))


if __name__ == "__main__":
    print(min(asyncio.run(read_all(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
