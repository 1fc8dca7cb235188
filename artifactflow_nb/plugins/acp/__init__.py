"""The Agent Client Protocol: the command `python -m artifactflow_nb acp`, which an editor starts as its agent."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Any

from artifactflow_nb.errors import UsageError


def add_acp(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command `acp` to a parser."""
    parser = commands.add_parser("acp", help="be the agent of an editor or a chat over the Agent Client Protocol")
    parser.add_argument("--data-dir", help="the folder of the store; AF_DATA_DIR or .artifactflow by default")
    parser.add_argument("--model", help="the model's name at the endpoint; the configured model by default")
    parser.add_argument("--replay", help="a cassette: play the recorded runs, without a key or a network")
    parser.set_defaults(run=serve)


def serve(options: argparse.Namespace) -> None:
    """Answer the editor on standard input and output until the editor closes standard input."""
    try:
        from acp import run_agent, stdio_streams
    except ImportError:
        raise UsageError("The command acp needs a missing package: pip install 'artifactflow-nb[acp]'") from None
    from artifactflow_nb.plugins.acp.agent import ResearchAgent
    from artifactflow_nb.server.lifecycle import open_lifecycle

    lifecycle = open_lifecycle(data_dir=options.data_dir, model=options.model, replay=options.replay)
    agent: Any = ResearchAgent(lifecycle)  # a part of the protocol: optional methods are left out

    async def answer() -> None:
        await lifecycle.continue_abandoned()  # the runs of an editor that was closed
        streams: Sequence[Any] = ()
        if sys.platform != "win32":  # there the connection writes to `sys.stdout` itself
            sys.stdout = os.fdopen(os.dup(1), "w")
            os.dup2(2, 1)  # what tools and their processes print goes to the log of the editor
            streams = (await stdio_streams(50_000_000))[::-1]
            sys.stdout = sys.stderr
        await run_agent(agent, *streams)

    try:
        asyncio.run(answer())
    finally:
        lifecycle.close()
