"""The model of the agent that has blocks written in their order: it does what its prompt says is to be done now.

No language model is used for that: which block comes next follows from what rests on what.
"""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

from artifactflow_nb.messages import ToolProtocol, Usage
from artifactflow_nb.models.base import ModelDelta, ModelEvent, ModelReply, ModelRequest, model_card
from artifactflow_nb.text.cards import Card, Shown
from artifactflow_nb.xml_calls import format_call

_NOW = re.compile(r"<now>\n(.*?)\n</now>", re.DOTALL)


def told_now(calls: list[tuple[str, dict[str, Any]]], words: str) -> str:
    """What a prompt has to hold: the calls that are to be made now, and what is to be said."""
    return f"<now>\n{json.dumps({'calls': calls, 'words': words}, ensure_ascii=False)}\n</now>"


class InOrderModel(Shown):
    """Makes the calls, and says the words, that its prompt holds for this turn; it costs nothing."""

    provider = "artifactflow"
    tool_protocols: tuple[ToolProtocol, ...] = ("xml",)
    default_model = "in-order"

    def __repr__(self) -> str:
        return "InOrderModel()"

    def _card(self) -> Card:
        return model_card(self, answers="with the calls that come next; no language model is used")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Take a turn."""
        told = _NOW.findall(request.messages[0].content)
        now: dict[str, Any] = json.loads(told[-1]) if told else {"calls": [], "words": "There is nothing to do."}
        written = [format_call(name, params) for name, params in now["calls"]] if request.tool_choice == "auto" else []
        text = "\n".join(filter(None, [now["words"], *written]))
        yield ModelDelta(text)
        yield ModelReply(text, Usage(0, 0), "stop", self.default_model)

    async def list_models(self) -> list[str]:
        """Its one name."""
        return [self.default_model]

    async def aclose(self) -> None:
        """Nothing to free."""
