"""What is recorded of a call, given as the call itself would: a stream, an error, notices; and what is asked in it."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from artifactflow_nb import errors
from artifactflow_nb.errors import ModelError
from artifactflow_nb.messages import Message
from artifactflow_nb.models.base import ModelDelta, ModelEvent, ModelRequest
from artifactflow_nb.recordings.clock import RUN, Times
from artifactflow_nb.recordings.tape import Asking, Calling
from artifactflow_nb.recordings.values import Failure, Prompt, RecordedAsk, RecordedCall, RecordedTurn, lane_of_answer

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


def spans(turns: Mapping[str, RecordedTurn], calls: Mapping[str, RecordedCall]) -> dict[str, Times]:
    """When model calls and tool calls, by their ids, began and ended, and when their pieces came."""
    found = {
        key: Times(turn.started_at, turn.completed_at, turn.duration_ms, tuple(one.at for one in turn.pieces))
        for key, turn in turns.items()
    }
    return found | {
        key: Times(call.called_at, call.completed_at, call.duration_ms)
        for key, call in calls.items()
        if call.called_at is not None
    }


def works_after(turns: Mapping[str, RecordedTurn], calls: Mapping[str, RecordedCall], pause: datetime | None) -> bool:
    """Whether anything began after the last pause: a run that was cancelled was so at work then."""
    began = [turn.started_at for turn in turns.values()]
    began += [call.called_at for call in calls.values() if call.called_at is not None]
    return pause is None or any(at >= pause for at in began)


def places_of_answers(
    asks: Mapping[str, RecordedAsk], pauses: Sequence[datetime], lanes: Iterable[str]
) -> dict[str, tuple[int, int]]:
    """After how many pauses each answer was told, and with which number; by the times where that is not known."""
    places = {
        subject: (sum(pause <= ask.decided_at for pause in pauses), 0)
        for subject, ask in asks.items()
        if ask.decided_at is not None and not ask.settled
    }
    n_pauses = -1  # the first of the run's own events is its beginning
    for seq, lane in enumerate(lanes, 1):
        n_pauses += lane == RUN
        if (subject := lane.removeprefix(lane_of_answer(""))) in places and subject != lane:
            places[subject] = n_pauses, seq
    return places
