"""The MCP server over a scripted model: `python scripted_server.py REPLIES OPTION...`, with the options of the command.

REPLIES is a JSON list: a text, a call as `{"tool": ..., "params": ...}`, or `{"wait": FILE}`, which waits for a file.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from support.replies import in_request_protocol

import artifactflow_nb as af
from artifactflow_nb.__main__ import main
from artifactflow_nb.server import lifecycle

ASK = {"create_artifact": "ask"}


def turn_of(reply: Any) -> Any:
    if isinstance(reply, str):
        return reply
    if "wait" in reply:
        while not Path(reply["wait"]).exists():
            time.sleep(0.02)
        return "The file is there."
    return af.ToolCall(reply["tool"], reply["params"])


def serve(replies: list[Any], arguments: list[str]) -> int:
    script = iter(replies)
    model = af.ScriptedModel(in_request_protocol(lambda _request: turn_of(next(script))))
    open_lifecycle = lifecycle.open_lifecycle
    lifecycle.open_lifecycle = lambda **options: open_lifecycle(
        **{**options, "model": model, "options": {"approvals": ASK}}
    )
    return main(["mcp", *arguments])


if __name__ == "__main__":
    sys.exit(serve(json.loads(sys.argv[1]), sys.argv[2:]))
