"""An MCP server: `python -m artifactflow_nb mcp` lets other assistants use the runs of a data folder.

`tools.py` has the tools. `protocol.py` serves them over stdio and HTTP with version 1 or 2 of the SDK, and `jupyter.py`
hands them to the MCP server of Jupyter Server. No engine loads this folder.
"""

import argparse
import asyncio
from contextlib import closing, suppress

from artifactflow_nb.errors import UsageError


def add_mcp(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `mcp` to a parser."""
    parser = commands.add_parser("mcp", help="offer research to other assistants: an MCP server over stdio or HTTP")
    parser.add_argument("--data-dir", help="the folder of the store; AF_DATA_DIR or .artifactflow by default")
    parser.add_argument("--http", metavar="[HOST:]PORT", help="serve over HTTP; hosts but 127.0.0.1 need a token")
    parser.add_argument("--host-name", action="append", default=[], help="another name of this machine, for clients")
    parser.add_argument("--model", help="the name of the model at the endpoint; the configured model by default")
    parser.add_argument("--read-only", action="store_true", help="search and read; start and decide nothing")
    parser.set_defaults(run=run_mcp)


def run_mcp(options: argparse.Namespace) -> None:
    """Serve a client until it closes the input, or over HTTP until a signal; `UsageError` without the extra `mcp`."""
    try:
        from artifactflow_nb.plugins.mcp_server.protocol import ProtocolServer, serve_http, serve_stdio
    except ImportError as error:
        raise UsageError(f"The MCP server needs {error.name}: pip install 'artifactflow-nb[mcp]'") from None
    from artifactflow_nb.plugins.mcp_server.tools import Tools
    from artifactflow_nb.server.lifecycle import open_lifecycle

    lifecycle = open_lifecycle(read_only=options.read_only, data_dir=options.data_dir, model=options.model)
    with closing(lifecycle), suppress(KeyboardInterrupt):
        server = ProtocolServer(Tools(lifecycle))
        if options.http is None:
            asyncio.run(serve_stdio(server))
        else:
            serve_http(server, options.http, options.host_name)
