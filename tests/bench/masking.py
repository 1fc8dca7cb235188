"""The cost of masking known secrets in a run of 40 tool rounds with long results, whose turns come in 5,000 pieces.

Both sides have the same settings, with two keys, and the same endpoint; one of them looks for no secret.
"""

import shutil
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from bench.figures import Figure, cpu_seconds
from support.chat_endpoint import Answer, ChatProcess

from artifactflow_nb.core.toolcalls.xml import format_call
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.tools.base import ToolContext, tool

ROUNDS, RESULT_CHARS, PIECES = 40, 4_000, 5_000
TARGET = 1.02

_REPEATS = 15
_MODEL = "masking"
_TEXT = "Ships that pass the sound keep to the east of the skerries, as pilots advise, unless a swell runs. " * 300
_KEYS = {"api_key": "sk-proj-opaqueKey0123456789opaqueKey", "tavily_key": "tvly-opaqueKey0123456789opaqueKey"}


@tool(idempotent=True)
def read_page(ctx: ToolContext, page: int) -> str:
    """Read a page."""
    del ctx
    return _TEXT[page : page + RESULT_CHARS]


async def figures() -> AsyncIterator[Figure]:
    """Per run, masked against not masked; the pieces are words, uneven as those of models are."""
    thought = " ".join(_TEXT.split()[: PIECES // ROUNDS])
    turns = [Answer(thought + format_call("read_page", {"page": n}), chunk_chars=0) for n in range(ROUNDS)]
    with ChatProcess({_MODEL: [*turns, Answer("Done.")]}) as base_url:
        sides = {is_masked: partial(_run, base_url, is_masked=is_masked) for is_masked in (False, True)}
        durations = await cpu_seconds(sides, repeats=_REPEATS)
    yield Figure("a run whose secrets are masked", durations[True] * 1e3, durations[False] * 1e3, "ms", TARGET)


async def _run(base_url: str, *, is_masked: bool) -> None:
    folder = Path(tempfile.mkdtemp())
    config = {"lead_agent": {"max_tool_rounds": ROUNDS + 1}}
    settings = Settings.load(data_dir=folder, graph_config=config, base_url=base_url, model=_MODEL, **_KEYS)
    engine = Engine(settings)
    if not is_masked:
        engine.secrets.look_up = frozenset
        engine.secrets.refresh()
    async with engine:
        engine.register_tool(read_page)
        result = await engine.controller.execute("Read on.")
        if result.status != "completed":
            raise RuntimeError(result.error_message)
    shutil.rmtree(folder)
