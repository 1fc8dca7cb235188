"""CPU time of an export as OpenTelemetry traces, against the CPU time of the run that is exported.

The runs: that of `bench.recording` with 40 model turns and 5,000 chunks, and a research run of the offline model. Run
alone by `python tests/bench/traces.py`.
"""

import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

from bench.figures import Figure, print_all
from bench.recording import CHUNK_CHARS, TURNS, count_words, script

import artifactflow_nb as af

TARGET, CONTENT_TARGET = 0.02, 0.04
_RUNS, _EXPORTS = 5, 9


def _cpu_ms(work: Callable[..., object], *args: object, **options: object) -> float:
    gc.collect()
    before = time.process_time()
    work(*args, **options)
    return (time.process_time() - before) * 1000


def _ask(wb: af.Workbench) -> af.Run:
    run = wb.ask("How do context managers end?").wait()
    assert run.status == "completed"
    return run


async def figures() -> AsyncIterator[Figure]:
    """Exports without and with content."""
    models = {
        "40 turns": af.ScriptedModel(script() * (_RUNS + 1), chunk_chars=CHUNK_CHARS),
        "research": af.OfflineModel(),
    }
    for name, model in models.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            af.Workbench(
                model=model,
                data_dir=folder,
                interactive=False,
                approvals="approve",
                graph_config={"lead_agent": {"max_tool_rounds": TURNS}},
            ) as wb,
        ):
            wb.tool(count_words)
            run = _ask(wb)
            floor = statistics.median(_cpu_ms(_ask, wb) for _ in range(_RUNS))
            for content, target in ((False, TARGET), (True, CONTENT_TARGET)):
                exports = [_cpu_ms(wb.otel.encode, run, content=content) for _ in range(_EXPORTS)]
                label = f"traces of a run ({name}) {'with' if content else 'without'} content: CPU / run"
                yield Figure(label, statistics.median(exports[1:]), floor, "ms", target)


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(print_all(figures())) else 1)
