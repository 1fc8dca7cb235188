"""A scripted model that answers when the test is ready."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel


class GatedModel(ScriptedModel):
    """A model whose replies wait until `gate` is set, so that a reader can connect first."""

    def __init__(self, turns: Any, **options: Any) -> None:
        super().__init__(turns, **options)
        self.gate = threading.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        while not self.gate.is_set():  # noqa: ASYNC110 - the test sets it in another thread
            await asyncio.sleep(0.005)
        async for event in super().stream(request):
            yield event
