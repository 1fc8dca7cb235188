"""The model of agents that compute their calls from blocks and dependencies, without a language model."""

import json
from collections.abc import AsyncIterator

from artifactflow_nb.core.messages import COMPUTED_PROVIDER, ToolProtocol, Usage
from artifactflow_nb.core.text.cards import Card, CardMixin
from artifactflow_nb.models.base import ModelContext, ModelDelta, ModelEvent, ModelReply, ModelRequest, model_card


class OrderedWriterModel(CardMixin):
    """A model that makes the next calls of its request's context, or replies with the context's message."""

    provider = COMPUTED_PROVIDER
    tool_protocols: tuple[ToolProtocol, ...] = ("native",)
    default_model = "in-order"

    def __repr__(self) -> str:
        return "OrderedWriterModel()"

    def _card(self) -> Card:
        return model_card(self, answers="with the calls that come next; no language model is used")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the next calls, which a concluding turn must not make, and the message."""
        context = request.context or ModelContext("", "", next_message="There is nothing to do.")
        calls = context.next_calls if request.tool_choice == "auto" else ()
        if context.next_message:
            yield ModelDelta(context.next_message)
        for call in calls:
            yield ModelDelta(json.dumps(dict(call.params), ensure_ascii=False), "call", call.name)
        reason = "tool_calls" if calls else "stop"
        yield ModelReply(context.next_message, Usage(0, 0), reason, self.default_model, calls)

    async def list_models(self) -> list[str]:
        """Return its only name."""
        return [self.default_model]

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""
