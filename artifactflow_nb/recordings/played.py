"""What is recorded of a call, given as the call itself would: a stream, an error, notices; and what is asked in it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from artifactflow_nb import errors
from artifactflow_nb.errors import ModelError
from artifactflow_nb.messages import Message
from artifactflow_nb.models.base import ModelDelta, ModelEvent, ModelRequest
from artifactflow_nb.recordings.tape import Asking, Calling
from artifactflow_nb.recordings.values import Failure, Prompt, RecordedCall, RecordedTurn

_PIECES_AT_ONCE = 64
"""How many pieces are told before others on the loop have their turn."""


def tell(calling: Calling, call: RecordedCall) -> None:
    """Tell again what a tool told while it worked."""
    for notice in call.notices:
        calling.notify(notice.type, notice.data)


async def streamed(turn: RecordedTurn) -> AsyncIterator[ModelEvent]:
    """The pieces of a turn, and the reply if there was one."""
    for n, piece in enumerate(turn.pieces):
        if n % _PIECES_AT_ONCE == 0:
            await asyncio.sleep(0)
        yield ModelDelta(piece.text, piece.kind, piece.tool)
    if turn.reply is not None:
        yield turn.reply


def prompt_of(asking: Asking) -> Prompt:
    """What a model is about to be asked, as a recording has it."""
    request: ModelRequest = asking.request
    native = request.tools if request.tool_protocol == "native" else ()
    return Prompt(
        messages=tuple(message if not message.calls else _sent(message) for message in request.messages),
        model=asking.model,
        temperature=request.temperature,
        tool_protocol=request.tool_protocol,
        tool_choice=request.tool_choice,
        tools=tuple(
            {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)} for tool in native
        ),
    )


def _sent(message: Message) -> Message:
    """A message as the store keeps it: what was unreadable of a call is told by its result."""
    return replace(message, calls=tuple(replace(call, error=None) for call in message.calls))


def raised(failure: Failure) -> ModelError:
    """The error that a recorded failure was."""
    kind = getattr(errors, failure.error_type, ModelError)
    is_of_the_model = isinstance(kind, type) and issubclass(kind, ModelError)
    return (kind if is_of_the_model else ModelError)(failure.message, partial=failure.partial)
