"""`python -m artifactflow_nb serve`: the commands of the package."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from itertools import product
from pkgutil import resolve_name
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from artifactflow_nb.errors import ArtifactFlowError, UsageError, wrap_words
from artifactflow_nb.plugins import COMMANDS
from artifactflow_nb.server.access import TOKEN_VARIABLE, Access, reachable_hosts


def add_serve(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `serve` to a parser."""
    parser = commands.add_parser(
        "serve", help="serve the runs of a data folder over HTTP, with a page at /artifactflow"
    )
    parser.add_argument("--data-dir", help="the folder of the store; AF_DATA_DIR or .artifactflow by default")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at; other addresses need tokens")
    parser.add_argument("--port", type=int, default=8765, help="8765 by default; 0 for a free port")
    parser.add_argument("--host-name", action="append", default=[], help="another name of this machine, for clients")
    parser.add_argument(
        "--user",
        action="append",
        default=[],
        help=f"a user, who gets a token; {TOKEN_VARIABLE} sets the token of a single user",
    )
    parser.add_argument("--read-only", action="store_true", help="show runs; start, decide and delete nothing")
    parser.add_argument("--replay", help="a cassette: play the recorded runs, without a key or a network")
    parser.set_defaults(run=serve)


def serve(options: argparse.Namespace) -> None:
    """Serve until the process is stopped.

    Errors: `UsageError` without the extra `server`, and for settings that do not fit together.
    """
    try:
        from artifactflow_nb.server.app import PREFIX, EndingServer, make_app
        from artifactflow_nb.server.lifecycle import open_lifecycle
    except ImportError as error:
        raise UsageError(f"The server needs {error.name}: pip install 'artifactflow-nb[server]'") from None
    token = os.environ.get(TOKEN_VARIABLE) or None
    if token is not None and len(options.user) > 1:
        raise UsageError(f"{TOKEN_VARIABLE} is for one user; --user names {len(options.user)}. Unset the variable.")
    access = Access.of_users(options.user, options.host, options.host_name, token)
    with ExitStack() as stack:
        settings: dict[str, Any] = {"data_dir": options.data_dir, "replay": options.replay}
        if options.replay is not None and options.data_dir is None:  # recorded runs have the ids of the recording
            settings["data_dir"] = stack.enter_context(TemporaryDirectory(prefix="artifactflow-"))
        lifecycle = open_lifecycle(read_only=options.read_only, **settings)
        stack.callback(lifecycle.close)

        def announce(port: int) -> None:
            for (user, secret), host in product((access.tokens or {"": ""}).items(), reachable_hosts(options.host)):
                address = f"http://{host}:{port}{PREFIX}/" + (f"?token={quote(secret)}" if secret else "")
                print(f"{user}: {address}" if user else address, flush=True)  # noqa: T201 - the answer of a command

        with suppress(KeyboardInterrupt):  # uvicorn raises the interrupt again after it has stopped
            EndingServer(make_app(lifecycle, access), lifecycle, options.host, options.port, announce).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m artifactflow_nb", description="Commands of ArtifactFlow NB.")
    commands = parser.add_subparsers(required=True, metavar="command")
    for add_command in (add_serve, *map(resolve_name, COMMANDS.values())):
        add_command(commands)
    options = parser.parse_args(arguments)
    try:
        return options.run(options) or 0
    except ArtifactFlowError as error:
        print(wrap_words(str(error)), file=sys.stderr)  # noqa: T201 - the answer of a command
        return 1


if __name__ == "__main__":
    sys.exit(main())
