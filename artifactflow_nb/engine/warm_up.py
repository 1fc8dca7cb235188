"""Background imports of the libraries that the first run needs."""

import atexit
import os
import sys
import threading
from collections.abc import Collection
from contextlib import suppress
from importlib import import_module

from artifactflow_nb.models.base import Model
from artifactflow_nb.models.openai.client import OpenAIModel, client_modules

_GRAPH_MODULES = ("langchain_core.tracers.context", "langchain_core.tracers.stdout")
_STOP_TIMEOUT_S = 5.0


def modules_of_first_run(models: Collection[Model]) -> tuple[str, ...]:
    """Return the names of the modules that a run with these models imports when it starts."""
    if not any(isinstance(model, OpenAIModel) for model in models):
        return _GRAPH_MODULES
    return (*_GRAPH_MODULES, *client_modules())


def import_in_background(names: Collection[str]) -> None:
    """Import modules in a thread unless they are loaded; failing imports are left to the code that needs them.

    The thread ends before the process ends or forks: a thread that is killed within an import can crash the process,
    and a forked child would wait forever for the lock of a half-imported module.
    """
    missing = [name for name in names if name not in sys.modules]
    if not missing:
        return
    stopped = threading.Event()

    def load() -> None:
        for name in missing:
            if stopped.is_set():
                return
            with suppress(Exception):
                import_module(name)

    def stop() -> None:
        stopped.set()
        thread.join(_STOP_TIMEOUT_S)  # the time is limited, because the caller may hold the import lock

    thread = threading.Thread(target=load, name="artifactflow-imports", daemon=True)
    atexit.register(stop)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=stop)
    thread.start()
