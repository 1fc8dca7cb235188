"""The number of runs that an engine drives at once. The others wait for their start, and have no open file."""

import sys

MAX_RUNNING_RUNS = 256
"""Most new runs, and most runs that continue, that are driven at once, however many files the process may open."""

_FILES_PER_RUN = 4
"""Open files of a usual run: the connection of its model call, those of two parallel jobs, and a spare one."""


def max_running_runs() -> int:
    """Return how many new runs, and how many that continue, may use half of the file descriptors together."""
    if sys.platform == "win32":  # there is no limit of open files to respect
        return MAX_RUNNING_RUNS
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MAX_RUNNING_RUNS
    return max(1, min(MAX_RUNNING_RUNS, limit // 2 // _FILES_PER_RUN // 2))
