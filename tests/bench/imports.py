"""The time of `import artifactflow_nb`, against a small package that every kernel imports anyway."""

import statistics
import subprocess
import sys
from collections.abc import Iterator

from bench.figures import Figure

HEAVY = ("openai", "langgraph", "pandas", "pydantic")
_REPEATS = 9
_SCRIPT = """
import sys, time
started = time.process_time()
import {package}
took = time.process_time() - started
print(took * 1000, *(name for name in {heavy} if name in sys.modules))
"""


def figures() -> Iterator[Figure]:
    """The import time; raises `AssertionError` if the front door loads one of the heavy libraries."""
    durations: dict[str, list[float]] = {"traitlets": [], "artifactflow_nb": []}
    for _ in range(_REPEATS):
        for package, times in durations.items():
            took, loaded = _import(package)
            times.append(took)
            if package == "artifactflow_nb" and loaded:
                raise AssertionError(f"`import artifactflow_nb` loads {', '.join(loaded)}.")
    medians = {package: statistics.median(times) for package, times in durations.items()}
    yield Figure("import artifactflow_nb / traitlets", medians["artifactflow_nb"], medians["traitlets"], "ms", 1.3, 50)


def _import(package: str) -> tuple[float, list[str]]:
    """Milliseconds for the import in a new interpreter, and the heavy libraries that it loaded."""
    script = _SCRIPT.format(package=package, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    took, *loaded = done.stdout.split()
    return float(took), loaded
