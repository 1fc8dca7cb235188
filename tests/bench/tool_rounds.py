"""What a round of model turn and tool costs, against a bare loop over the `openai` client that does the same work.

Both sides get the same replies from the same server process and run the same tool; a side is one async function that
runs a whole task and returns how often the tool ran.
"""

import re
from collections.abc import AsyncIterator

from bench.figures import Figure, cpu_seconds
from loopback import Answer, ChatProcess
from openai import AsyncOpenAI

from artifactflow_nb.messages import Message, ToolResult
from artifactflow_nb.models.base import ModelReply, ModelRequest
from artifactflow_nb.models.openai import OpenAIModel
from artifactflow_nb.xml_calls import format_call, format_results, parse_reply

ROUNDS = 20
MODEL = "rounds"
TARGET = 1.0

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


async def figures() -> AsyncIterator[Figure]:
    """Per round: our model and parser in a bare loop, which is the least that the engine can cost."""
    with ChatProcess(script()) as base_url:
        client = AsyncOpenAI(base_url=base_url, api_key="k", max_retries=0)
        model = OpenAIModel(base_url, "k", MODEL)
        for ran in (await bare_loop(client), await model_loop(model)):
            if ran != ROUNDS:
                raise AssertionError(f"The tool ran {ran} times instead of {ROUNDS}.")
        sides = {"floor": lambda: bare_loop(client), "model": lambda: model_loop(model)}
        seconds = await cpu_seconds(sides, repeats=_REPEATS)
        await client.close()
        await model.aclose()
    floor, ours = (seconds[side] * 1000 / ROUNDS for side in ("floor", "model"))
    yield Figure("tool round: OpenAIModel loop / openai loop", ours, floor, "ms", TARGET)


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
        messages += [Message("assistant", reply.content), Message("user", format_results(results))]
