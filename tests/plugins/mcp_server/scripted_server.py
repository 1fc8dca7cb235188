"""The MCP server over a scripted model: `python scripted_server.py REPLIES OPTION...`, with the options of the command.

REPLIES is a JSON list of texts, and of calls as `{"tool": ..., "params": ...}`. The first can be `{"wait": FILE}`: the
model replies when the file exists.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from support.replies import in_request_protocol

import artifactflow_nb as af
from artifactflow_nb.__main__ import main
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.server import lifecycle

ASK = {"create_artifact": "ask"}


class WaitingModel(af.ScriptedModel):
    """A model that replies when a file exists; without a file, at once."""

    file: Path | None = None

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        while self.file is not None and not self.file.exists():  # noqa: ASYNC110 - the test creates the file
            await asyncio.sleep(0.02)
        async for event in super().stream(request):
            yield event


def serve(replies: list[Any], arguments: list[str]) -> int:
    first, *rest = replies
    is_waiting = isinstance(first, dict) and "wait" in first
    turns = [
        reply if isinstance(reply, str) else af.ToolCall(reply["tool"], reply["params"])
        for reply in (rest if is_waiting else replies)
    ]
    model = WaitingModel(in_request_protocol(turns))
    model.file = Path(first["wait"]) if is_waiting else None
    open_lifecycle = lifecycle.open_lifecycle
    lifecycle.open_lifecycle = lambda **options: open_lifecycle(
        **{**options, "model": model, "options": {"approvals": ASK}}
    )
    return main(["mcp", *arguments])


if __name__ == "__main__":
    sys.exit(serve(json.loads(sys.argv[1]), sys.argv[2:]))
