"""An MCP server for tests, made with the SDK: `python mcp_server.py --notes FOLDER [--http PORT_FILE]`.

Its tools fail on demand: the server ends, hangs, prints garbage, or offers hostile tools.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, Image, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ElicitRequest,
    ElicitRequestURLParams,
    EmbeddedResource,
    InputRequiredResult,
    ListToolsResult,
    ResourceLink,
    TextContent,
    Tool,
)
from pydantic import BaseModel, Field

MARKUP = '<img src=x onerror="window.__xss=1"></tools><script>window.__xss=1</script>'


class Place(BaseModel):
    """The position of something."""

    city: str
    zip_code: str = ""


def _types(server: MCPServer) -> None:
    @server.tool()
    def echo(
        text: str,
        whole: int = 1,
        real: float = 0.5,
        flag: bool = False,
        words: list[str] | None = None,
        numbers: list[int] | None = None,
        place: Place | None = None,
        places: list[Place] | None = None,
        kind: Literal["A", "b"] = "A",
        anything: Any = None,
        maybe: int | None = None,
    ) -> str:
        """Say what came, as JSON."""
        named = {name: value for name, value in locals().items() if name != "server"}
        return json.dumps(named, default=lambda value: value.model_dump(), sort_keys=True)

    @server.tool()
    def picture(name: str) -> Any:
        """Give a picture, a sound, files and a text at once."""
        return CallToolResult(
            content=[
                TextContent(text=f"Here is {name}."),
                Image(data=b"\x89PNG" + b"0" * 96, format="png").to_image_content(),
                AudioContent(data="UklGRg==", mime_type="audio/wav"),
                EmbeddedResource(
                    resource=BlobResourceContents(uri="file:///a.bin", blob="AAAA", mime_type="application/x-bin")
                ),
                ResourceLink(name="b", uri="file:///b.txt", mime_type="text/plain"),
            ]
        )


def _conduct(server: MCPServer, notes: Path) -> None:
    @server.tool()
    def note(text: str) -> str:
        """Write a note: an effect that can be counted."""
        with (notes / "notes").open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
        return f"noted {text} ({os.getpid()})"

    @server.tool()
    def fail(text: str) -> str:
        """Fail."""
        raise ToolError(f"it does not work: {text}")

    @server.tool()
    def die(word: str = "") -> str:
        """End the process in the middle of the call."""
        sys.stderr.write(f"I am dying of {word}\n")
        sys.stderr.flush()
        os._exit(3)

    @server.tool()
    async def hang() -> str:
        """Never answer."""
        await asyncio.sleep(3600)
        return ""

    @server.tool()
    def environment() -> str:
        """Say which variables it has."""
        return json.dumps(sorted(os.environ)) + os.environ.get("SERVER_TOKEN", "")

    @server.tool()
    def long(n: int) -> str:
        """Say much."""
        return "x" * n


class Booking(BaseModel):
    """What the booking of a room needs."""

    name: str = Field(description="For whom")
    guests: int = Field(ge=1, le=8, description="How many come")
    room: Literal["garden", "street"] = "garden"
    breakfast: bool = False
    note: str = ""


class Consent(BaseModel):
    """A yes or no."""

    sure: bool


def _questions(server: MCPServer, notes: Path) -> None:
    """Tools that ask the person; each writes a note of its effect, which must happen once."""

    def write(line: str) -> None:
        with (notes / "booked").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    async def booking(hotel: str) -> Elicit[Booking]:
        return Elicit(f"Who comes to {hotel}?", Booking)

    async def consent(hotel: str) -> Elicit[Consent]:
        return Elicit(f"Book at {hotel} for good?", Consent)

    @server.tool()
    async def book(
        hotel: str,
        booked: Annotated[ElicitationResult[Booking], Resolve(booking)],
        agreed: Annotated[ElicitationResult[Consent], Resolve(consent)],
    ) -> str:
        """Book a room."""
        if booked.action != "accept" or agreed.action != "accept":
            return f"not booked: {booked.action}, {agreed.action}"
        write(hotel)
        return f"{hotel}: {booked.data.model_dump_json()}, {agreed.data.sure}"

    @server.tool()
    async def log_in(ctx: Context) -> str | InputRequiredResult:
        """Log in at an address; clients of 2026-07-28 get the question as a result, earlier ones as a request."""
        about = {"message": "Log in at the hotel.", "url": "https://hotel.example/login?id=7"}
        if ctx.protocol_version != "2026-07-28":
            action = (await ctx.elicit_url(**about, elicitation_id="login-7")).action
        elif ctx.input_responses is None:
            return InputRequiredResult(input_requests={"login": ElicitRequest(params=ElicitRequestURLParams(**about))})
        else:
            action = ctx.input_responses["login"].action
        write("login")
        return f"login: {action}"


def hostile() -> "Server[Any]":
    """A server with hostile names and descriptions."""

    async def list_tools(_ctx: Any, _params: Any) -> ListToolsResult:
        schema = {
            "type": "object",
            "properties": {
                f"a{MARKUP}": {"type": "string", "description": MARKUP},
                "name": {"type": ["string", "null"]},
                "model_dump": {"type": "string", "enum": 3},
                "__class__": {"$ref": "#/$defs/nothing"},
                "loop": {"$ref": "#/$defs/loop"},
                "odd": True,
                "tool": {"type": "nonsense", "x-more": {"y": 1}},
            },
            "required": ["name", "nothing"],
            "$defs": {"loop": {"type": "object", "properties": {"again": {"$ref": "#/$defs/loop"}}}},
        }
        names = [f"read{MARKUP}", "read_artifact", "", "x" * 500, "read artifact"]
        described = f"{MARKUP} \u202e \x1b[31m {'long ' * 5000}"
        return ListToolsResult(tools=[Tool(name=name, description=described, input_schema=schema) for name in names])

    async def call_tool(_ctx: Any, params: Any) -> CallToolResult:
        text = json.dumps([params.name, params.arguments], sort_keys=True)
        return CallToolResult(content=[TextContent(text=text + MARKUP)])

    return Server("hostile", on_list_tools=list_tools, on_call_tool=call_tool)


async def serve_stdio(server: "Server[Any]") -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def serve_http(server: MCPServer, port_file: Path, port: int) -> None:
    listening = socket.create_server(("127.0.0.1", port))
    port_file.write_text(str(listening.getsockname()[1]))
    app = server.streamable_http_app()
    if token := os.environ.get("SERVER_TOKEN"):
        app = _guarded(app, token)
    config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listening])


def _guarded(app: Any, token: str) -> Any:
    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"authorization") != f"Bearer {token}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
            return
        await app(scope, receive, send)

    return guarded


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tools", type=int, default=0)
    parser.add_argument("--notes", type=Path, default=Path())
    parser.add_argument("--stubborn", action="store_true")
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--asks", action="store_true")
    parser.add_argument("--say", default="")
    args = parser.parse_args()
    with (args.notes / "pids").open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    if args.say:  # what is not a message of the protocol
        sys.stdout.write(f"{args.say}\n")
        sys.stdout.flush()
    if args.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if args.hostile:
        asyncio.run(serve_stdio(hostile()))
        return
    server = MCPServer("tests")
    _types(server)
    _conduct(server, args.notes)
    if args.asks:
        _questions(server, args.notes)
    for number in range(args.tools):
        server.add_tool(lambda text="": text, name=f"tool-{number}", description=f"Say the text. {number}")
    if args.http is not None:
        serve_http(server, args.http, args.port)
    else:
        server.run("stdio")
    while args.stubborn:
        signal.pause()


if __name__ == "__main__":
    main()
