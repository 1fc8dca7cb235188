"""All figures, each as a ratio to a floor measured in the same run: `python tests/bench/run.py`.

Takes about eleven minutes and stops by itself. The chat and many runs are measured in a real JupyterLab in Chromium;
without Chromium the last line says that their figures are left out. The exit status is 1 if a target is missed.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

from bench import (
    blocks,
    chat,
    checkpoints,
    compose,
    imports,
    long_run,
    many_runs,
    masking,
    paced,
    pdfs,
    plan,
    recording,
    server,
    simulated_study,
    sources,
    stored,
    streams,
    studies,
    tool_rounds,
    traces,
    turns,
)
from bench.figures import Figure, print_all

_LIMIT_S = 1200
"""Nothing is to hang for ever; a slow machine takes ten minutes."""


async def figures() -> AsyncIterator[Figure]:
    """The figures of every section, as they are measured."""
    for figure in imports.figures():
        yield figure
    async for figure in streams.figures():
        yield figure
    async for figure in tool_rounds.figures():
        yield figure
    async for figure in sources.figures():
        yield figure
    for section in (
        long_run,
        turns,
        checkpoints,
        plan,
        compose,
        paced,
        stored,
        blocks,
        masking,
        recording,
        traces,
        server,
        pdfs,
        studies,
        simulated_study,
    ):
        async for figure in section.figures():
            yield figure
    if chat.find_chromium() is not None:
        for section in (chat, many_runs):
            # The browser wants a thread without a loop.
            for figure in await asyncio.to_thread(lambda module: list(module.figures()), section):
                yield figure


async def main() -> bool:
    """Print every figure; return True if all targets are met."""
    async with asyncio.timeout(_LIMIT_S):
        is_met = await print_all(figures())
    if chat.find_chromium() is None:
        print(
            "Left out: the figures of chat and many_runs, which need Chromium. Debian, Ubuntu: apt-get install chromium"
        )
    return is_met


if __name__ == "__main__":
    sys.exit(not asyncio.run(main()))
