"""An MCP server that writes its answers byte by byte, as no SDK would: `python mcp_raw_server.py`."""

import json
import sys

DEPTH = 100_000
RESULTS = {
    "deep": '{"content": [], "structuredContent": {"a": ' + "[" * DEPTH + "]" * DEPTH + "}}",
    "nested": '{"content": [], "structuredContent": {"a": ' + "[" * 120 + "]" * 120 + "}}",
    "half": '{"content": [{"type": "text", "text": "half \\ud800 pair"}]}',
    "plain": '{"content": [{"type": "text", "text": "plain"}]}',
}


def answer(message: dict) -> str | None:  # type: ignore[type-arg]
    """The result of a request, as JSON; None for a notification."""
    method, params = message["method"], message.get("params", {})
    if "id" not in message:
        return None
    if method == "initialize":
        about = {"name": "raw", "version": "1"}
        version = params["protocolVersion"]
        return json.dumps({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about})
    if method == "tools/list":
        return json.dumps({"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in RESULTS]})
    return RESULTS[params["name"]] if method == "tools/call" else "{}"


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if (result := answer(message)) is not None:
            sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {json.dumps(message["id"])}, "result": {result}}}\n')
            sys.stdout.flush()
