"""The cost of a round of model turn and tool, against a bare loop over the `openai` client that does the same work.

All sides get the same replies from the same server process and run the same tool; a side is one async function that
runs a whole task and returns how often the tool ran. The engine's side stores everything.
"""

import re
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from itertools import count
from pathlib import Path
from typing import Annotated

from bench.figures import Figure, cpu_seconds
from openai import AsyncOpenAI
from support.chat_endpoint import Answer, ChatProcess

from artifactflow_nb.core.approvals import ApprovalRule
from artifactflow_nb.core.messages import Message, ToolResult
from artifactflow_nb.core.toolcalls.xml import format_call, format_results, parse_reply
from artifactflow_nb.engine.engine import CHECKPOINT_FILE, Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.base import ModelReply, ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.tools.base import ToolContext, tool

ROUNDS = 20
MODEL = "rounds"
MODEL_TARGET = 1.0
ENGINE_TARGET = 1.8
CHECKPOINT_TARGET_BYTES = 6 * 1024

_REPEATS = 5
_THOUGHT = "I look this up before I go on, because the next step rests on it. "
_CALL = re.compile(
    r"<tool_call><name>(\w+)</name><params><text><!\[CDATA\[(.*?)\]\]></text></params></tool_call>", re.DOTALL
)


def script() -> dict[str, list[Answer]]:
    """Replies of about 60 chunks of about 4 tokens: one call each, and an answer at the end."""
    turns = [_THOUGHT * 13 + format_call("count_words", {"text": f"round {i} of the task"}) for i in range(ROUNDS)]
    return {MODEL: [Answer(text) for text in (*turns, "That is all. " * 70)]}


def count_words(text: str) -> str:
    """The tool of both sides."""
    return f"{len(text.split())} words"


async def count_words_of_call(ctx: ToolContext, text: Annotated[str, "The text."]) -> str:
    """Count the words of a text."""
    del ctx
    return count_words(text)


async def figures() -> AsyncIterator[Figure]:
    """Per round: our model and parser in a bare loop, and the whole engine; then the checkpoint of a run that waits."""
    async with AsyncExitStack() as stack:
        base_url = stack.enter_context(ChatProcess(script()))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        client = await stack.enter_async_context(AsyncOpenAI(base_url=base_url, api_key="k", max_retries=0))
        model = OpenAIModel(base_url, "k", MODEL)
        stack.push_async_callback(model.aclose)
        engine = await stack.enter_async_context(open_engine(folder, base_url))
        sides = {
            "floor": lambda: bare_loop(client),
            "model": lambda: model_loop(model),
            "engine": lambda: engine_loop(engine),
        }
        for name, side in sides.items():
            if (ran := await side()) != ROUNDS:
                raise AssertionError(f"The tool of the side {name} ran {ran} times instead of {ROUNDS}.")
        seconds = await cpu_seconds(sides, repeats=_REPEATS)
        early, late = [await checkpoint_bytes(folder / str(rounds), base_url, rounds) for rounds in (1, ROUNDS - 1)]
        left = stored_bytes(folder)
    floor, model_ms, engine_ms = (seconds[side] * 1000 / ROUNDS for side in ("floor", "model", "engine"))
    yield Figure("tool round: OpenAIModel loop / openai loop", model_ms, floor, "ms", MODEL_TARGET)
    yield Figure("tool round: engine, all stored / openai loop", engine_ms, floor, "ms", ENGINE_TARGET)
    yield Figure(f"checkpoint after {ROUNDS - 1} rounds / 6 KiB", late, CHECKPOINT_TARGET_BYTES, "bytes", 1.0)
    yield Figure(f"checkpoint after {ROUNDS - 1} rounds / after 1", late, early, "bytes", 1.15)
    yield Figure("checkpoints left after the runs (bytes + 1)", left + 1, 1, "bytes", 1.0)


def open_engine(folder: Path, base_url: str, approvals: ApprovalRule = "ask") -> Engine:
    """An engine whose lead has the tool and as many rounds as the script."""
    config = {"lead_agent": {"max_tool_rounds": ROUNDS}}
    settings = Settings.load(data_dir=folder, base_url=base_url, api_key="k", model=MODEL, graph_config=config)
    engine = Engine(settings, approvals=approvals)
    permission = "auto" if approvals == "ask" else "confirm"
    engine.register_tool(tool(name="count_words", idempotent=True, permission=permission)(count_words_of_call))
    return engine


async def engine_loop(engine: Engine) -> int:
    """The same task through the controller, the graph and the store."""
    result = await engine.controller.execute("question")
    if result.status != "completed":
        raise AssertionError(f"The run is {result.status}: {result.error_message}")
    return len(result.metrics.tool_calls)


async def checkpoint_bytes(folder: Path, base_url: str, rounds: int) -> int:
    """The bytes of the checkpoint of a run that waits after some rounds, with metadata and pending writes."""
    numbers = count(1)
    async with open_engine(folder, base_url, lambda _: "approve" if next(numbers) <= rounds else "ask") as engine:
        result = await engine.controller.execute("question")
        if (result.status, len(result.metrics.tool_calls)) != ("waiting", rounds):
            raise AssertionError(f"The run is {result.status} after {len(result.metrics.tool_calls)} rounds.")
        return stored_bytes(folder)


def stored_bytes(folder: Path) -> int:
    """Bytes in the tables of the checkpoints."""
    with closing(sqlite3.connect(folder / CHECKPOINT_FILE)) as db:
        checkpoints = db.execute("SELECT sum(length(checkpoint) + length(metadata)) FROM checkpoints").fetchone()[0]
        writes = db.execute("SELECT sum(length(value)) FROM writes").fetchone()[0]
    return (checkpoints or 0) + (writes or 0)


async def bare_loop(client: AsyncOpenAI) -> int:
    """The floor: the client's stream, one regular expression, one function call."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "question"}]
    ran = 0
    while True:
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=messages,  # type: ignore[arg-type]  # plain dicts are what the client sends
            stream=True,
            stream_options={"include_usage": True},
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        call = _CALL.search(text)
        if call is None:
            return ran
        ran += 1
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": count_words(call[2])}]


async def model_loop(model: OpenAIModel) -> int:
    """The same loop over our model, parser and result format."""
    messages = [Message("system", "Be brief."), Message("user", "question")]
    ran = 0
    while True:
        reply: ModelReply | None = None
        async for event in model.stream(ModelRequest(tuple(messages))):
            reply = event if isinstance(event, ModelReply) else None
        if reply is None:
            raise AssertionError("The turn did not end with its reply.")
        calls = parse_reply(reply.content).calls
        if not calls:
            return ran
        results = [(call.name, ToolResult(True, count_words(call.params["text"]))) for call in calls]
        ran += len(results)
        messages += [Message("assistant", reply.content), Message("tool", format_results(results))]
