"""Time, memory and repeated requests of a study on simulated workers: `python tests/bench/simulated_study.py [CELLS]`.

500 workers, of which 100 an hour die, at an endpoint with a limit; see support/simulated_cluster.py. 20,000 cells are
simulated among the figures, 1,000,000 take 8 minutes of CPU and 2.5 GB.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

from bench.figures import Figure, print_all
from support.simulated_cluster import Simulation, simulated_study

import artifactflow_nb as af
from artifactflow_nb.plugins.studies import plugin

N_CELLS = 20_000
N_WORKERS = 500
PER_WORKER = 8
DEATHS_PER_HOUR = 100

_KIB = 1_024
_PAGE_KIB = 4


def resident_kib() -> float:
    """The memory of this process in KiB."""
    return float(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_KIB


def simulate(n_cells: int) -> tuple[Simulation, float]:
    """Simulate a study; return it with the memory of its plan, rows and driver in KiB per cell."""
    plugin.MAX_CELLS = max(plugin.MAX_CELLS, n_cells)
    memory: list[float] = []
    with simulated_study(
        Path(tempfile.mkdtemp()),
        n_cells,
        N_WORKERS,
        limit=N_WORKERS * PER_WORKER,
        rate=af.Rate(requests=PER_WORKER),
        deaths_per_hour=DEATHS_PER_HOUR,
        watch=lambda: memory.append(resident_kib()),
    ) as simulation:
        return simulation, (max(memory[1], resident_kib()) - memory[0]) / n_cells


async def figures(n_cells: int = N_CELLS) -> AsyncIterator[Figure]:
    """The makespan against its bound, memory per cell, and runs against cells and deaths."""
    simulation, kib = await asyncio.to_thread(simulate, n_cells)
    cluster, endpoint = simulation.cluster, simulation.endpoint
    name = f"{n_cells:,} cells, {N_WORKERS} simulated workers"
    yield Figure(f"{name}: makespan / bound", simulation.makespan_s, simulation.bound_s, "s", 1.35)
    yield Figure(f"{name}: memory of a cell", kib, 1.0, "KiB", 6.0)
    paid = cluster.n_turns + cluster.n_lost
    yield Figure(f"{name}: requests / turns + deaths", endpoint.n_requests, paid, "requests", 1.01)


if __name__ == "__main__":
    asyncio.run(print_all(figures(int(sys.argv[1]) if sys.argv[1:] else N_CELLS)))
