"""The cost of a chunk from the socket to a listener, against the `openai` client's own stream.

A consumer is one async function that asks for a turn of the named model and takes all of it; the server runs in a
process of its own, so that only the listening side is measured. What a turn of a single chunk costs is subtracted on
every side: the request, and for a run its rows and its graph, are not the price of a chunk.
"""

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from bench.figures import Figure, cpu_seconds
from openai import AsyncOpenAI
from support.chat_endpoint import Answer, ChatProcess

from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.messages import Message
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel

SIZES = (200, 1000, 5000)
ONE = 1
FLAT = 1.5
"""How much dearer a chunk may be among the most chunks than among the fewest."""

_PIECE = "sixteen letters "
_REPEATS = 7

Consumer = Callable[[str], Awaitable[int]]


async def figures() -> AsyncIterator[Figure]:
    """Per chunk at each size for our model alone and for a subscriber of a run, and whether it stays flat."""
    async with AsyncExitStack() as stack:
        base_url = stack.enter_context(ChatProcess({str(size): [Answer(_PIECE * size)] for size in (ONE, *SIZES)}))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        client = await stack.enter_async_context(AsyncOpenAI(base_url=base_url, api_key="k", max_retries=0))
        model = OpenAIModel(base_url, "k", str(SIZES[0]))
        stack.push_async_callback(model.aclose)
        engines = {
            str(size): await stack.enter_async_context(_engine(folder / str(size), base_url, size))
            for size in (ONE, *SIZES)
        }
        sides = (partial(through_client, client), partial(through_model, model), partial(through_run, engines))
        costs = {size: await _per_chunk(sides, size) for size in SIZES}
    for size, (least, cost, _) in costs.items():
        yield Figure(f"chunk of {size}: OpenAIModel / openai client", cost, least, "us", 0.3)
    for size, (least, _, cost) in costs.items():
        yield Figure(f"chunk of {size}: subscriber / openai client", cost, least, "us", 0.5)
    fewest, most = costs[SIZES[0]][2], costs[SIZES[-1]][2]
    yield Figure(f"chunk of {SIZES[-1]} / chunk of {SIZES[0]}: subscriber", most, fewest, "us", FLAT)


def _engine(folder: Path, base_url: str, size: int) -> Engine:
    return Engine(Settings.load(data_dir=folder, base_url=base_url, api_key="k", model=str(size)))


async def through_client(client: AsyncOpenAI, model: str) -> int:
    """Take a turn with the client's own stream; return how many pieces of text came."""
    stream = await client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "question"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    pieces = [chunk.choices[0].delta.content async for chunk in stream if chunk.choices]
    return sum(piece is not None for piece in pieces)


async def through_model(model: OpenAIModel, name: str) -> int:
    """Take a turn with our model; return how many pieces of text came."""
    request = ModelRequest((Message("user", "question"),), model=name)
    events = [event async for event in model.stream(request)]
    replies = sum(isinstance(event, ModelReply) for event in events)
    if replies != 1:
        raise AssertionError(f"The turn gave {replies} replies instead of one.")
    return sum(isinstance(event, ModelDelta) for event in events)


async def through_run(engines: Mapping[str, Engine], name: str) -> int:
    """Ask a question and listen to the run; return how many pieces of text came."""
    events = engines[name].controller.stream_execute("question")
    return sum([event.type is StreamEventType.LLM_CHUNK async for event in events])


async def _per_chunk(sides: Sequence[Consumer], size: int) -> list[float]:
    """Microseconds per chunk of each side; the first is the floor."""
    for consumer in sides:
        if (came := await consumer(str(size))) != size:
            raise AssertionError(f"{came} of {size} chunks came.")
    named = {(index, n): partial(consumer, str(n)) for index, consumer in enumerate(sides) for n in (ONE, size)}
    seconds = await cpu_seconds(named, repeats=_REPEATS)
    return [(seconds[index, size] - seconds[index, ONE]) * 1e6 / (size - ONE) for index in range(len(sides))]
