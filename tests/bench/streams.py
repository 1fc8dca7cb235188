"""What a chunk costs on its way from the socket to whoever listens, against the `openai` client's own stream.

A consumer is one async function that asks for a turn of the named model and takes all of it; the server runs in a
process of its own, so that only the listening side is measured.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from bench.figures import Figure, cpu_seconds
from loopback import Answer, ChatProcess
from openai import AsyncOpenAI

from artifactflow_nb.messages import Message
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest
from artifactflow_nb.models.openai import OpenAIModel

SIZES = (200, 1000, 5000)
FLAT = 1.5
"""How much dearer a chunk may be among the most chunks than among the fewest."""

_PIECE = "sixteen letters "
_REPEATS = 7

Consumer = Callable[[str], Awaitable[int]]


async def figures() -> AsyncIterator[Figure]:
    """Per chunk at each size, and whether it stays flat."""
    with ChatProcess({str(size): [Answer(_PIECE * size)] for size in SIZES}) as base_url:
        client = AsyncOpenAI(base_url=base_url, api_key="k", max_retries=0)
        model = OpenAIModel(base_url, "k", str(SIZES[0]))
        floor, ours = partial(through_client, client), partial(through_model, model)
        costs = {size: await _per_chunk(floor, ours, size) for size in SIZES}
        await client.close()
        await model.aclose()
    for size, (least, cost) in costs.items():
        yield Figure(f"chunk of {size}: OpenAIModel / openai client", cost, least, "us", 0.3)
    fewest, most = costs[SIZES[0]][1], costs[SIZES[-1]][1]
    yield Figure(f"chunk of {SIZES[-1]} / chunk of {SIZES[0]}: OpenAIModel", most, fewest, "us", FLAT)


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


async def _per_chunk(floor: Consumer, ours: Consumer, size: int) -> tuple[float, float]:
    """Microseconds per chunk of the floor and of ours."""
    for consumer in (floor, ours):
        if (came := await consumer(str(size))) != size:
            raise AssertionError(f"{came} of {size} chunks came.")
    name = str(size)
    seconds = await cpu_seconds({"floor": lambda: floor(name), "ours": lambda: ours(name)}, repeats=_REPEATS)
    return seconds["floor"] * 1e6 / size, seconds["ours"] * 1e6 / size
