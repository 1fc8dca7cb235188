"""Registry of the data folders that are open in this process and in the process from which it was forked.

A forked child inherits the locks of its parent's threads without the threads, and SQLite's bookkeeping of the parent's
file locks. Using a store of the parent could hang or damage it, so it is an error.
"""

import os
from collections import Counter
from pathlib import Path

from artifactflow_nb.errors import UsageError

_open: Counter[Path] = Counter()
_inherited: set[Path] = set()

ADVICE = (
    "SQLite and threads do not survive a fork. Start the process with the spawn start method, "
    'multiprocessing.get_context("spawn"), and make a Workbench of its own there.'
)


def register_opening(folder: Path) -> None:
    """Register one more engine of this process that has the folder open."""
    _open[folder.resolve()] += 1


def register_closing(folder: Path) -> None:
    """Register one engine less of this process that has the folder open."""
    _open[folder.resolve()] -= 1


def check_not_forked(folder: Path) -> None:
    """Raise `UsageError` if the folder was open in the parent process when this one was forked."""
    if _inherited and folder.resolve() in _inherited:
        raise UsageError(
            f"The data folder {folder} was open in the process that this one, {os.getpid()}, was forked from. {ADVICE}"
        )


def _mark_inherited() -> None:
    _inherited.update(+_open)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_inherited)
