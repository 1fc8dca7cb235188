"""Turns of `OpenAIModel` with a scripted endpoint."""

from support.chat_endpoint import ChatServer

from artifactflow_nb.core.messages import Message
from artifactflow_nb.models.base import AttemptStart, ModelDelta, ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel

KEY = "sk-very-secret-key-0123456789"


class Waits(list[float]):
    """Records the requested waits without waiting."""

    async def __call__(self, seconds):
        self.append(seconds)


async def take(script, *, prompt="question", waits=None, timeout_s=5.0, stall_timeout_s=5.0, **fields):
    """Take one turn with a scripted server; return the events and the server."""
    with ChatServer(script) as server:
        model = OpenAIModel(
            server.base_url,
            KEY,
            "loopback",
            timeout_s=timeout_s,
            stall_timeout_s=stall_timeout_s,
            sleep=Waits() if waits is None else waits,
        )
        request = ModelRequest((Message("system", "Be brief."), Message("user", prompt)), **fields)
        try:
            start, *events = [event async for event in model.stream(request)]
            assert start == AttemptStart()
            return events, server
        finally:
            await model.aclose()


def text_of(found, kind="answer"):
    return "".join(event.text for event in found if isinstance(event, ModelDelta) and event.kind == kind)


def chunk(delta, finish=None, **more):
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
