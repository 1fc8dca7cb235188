"""The tools as functions, which the package jupyter-server-mcp offers in its MCP server.

That server asks for no token, so there is no `decide`. The runs are those of the engine behind the page of the same
Jupyter server.
"""

from inspect import Parameter, Signature
from typing import Annotated, Any

from jupyter_server.serverapp import ServerApp
from pydantic import WithJsonSchema

from artifactflow_nb.errors import UsageError
from artifactflow_nb.plugins.mcp_server.tools import Client, Tools, definitions
from artifactflow_nb.server.jupyter import SERVER_SETTING


def list_tools() -> list[str]:
    """Return the names under which jupyter-server-mcp looks up the functions."""
    return [f"{__name__}:{name}" for name in definitions()["tools"] if name != "decide"]


def __getattr__(name: str) -> Any:
    """Return a tool as a function with the parameters of its schema."""
    if (tool := definitions()["tools"].get(name)) is None or name == "decide":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    async def call(**arguments: Any) -> dict[str, Any]:
        server = ServerApp.instance().web_app.settings.get(SERVER_SETTING)
        if server is None:
            raise UsageError("The extension is off. Run: jupyter server extension enable artifactflow_nb")
        tools = Tools((await server.api()).lifecycle, decides=False)
        text, value = await tools.call(name, arguments, Client("Jupyter"))
        if value is None:
            raise UsageError(text)
        return value

    schema, kind = tool["inputSchema"], Parameter.KEYWORD_ONLY
    hints = {key: Annotated[Any, WithJsonSchema(each)] for key, each in schema["properties"].items()}
    defaults = dict.fromkeys(hints) | dict.fromkeys(schema.get("required", ()), Parameter.empty)
    parameters = [Parameter(key, kind, default=defaults[key], annotation=hints[key]) for key in hints]
    call.__name__, call.__doc__, call.__annotations__ = name, tool["description"], {**hints, "return": dict[str, Any]}
    call.__dict__["__signature__"] = Signature(parameters, return_annotation=dict[str, Any])
    return call
