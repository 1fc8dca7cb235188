"""Opens the engine of a server on its own thread."""

from pathlib import Path
from typing import Any

from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.base import Model
from artifactflow_nb.recording.engine import RecordingThread, make_engine
from artifactflow_nb.server.lifecycle import RunLifecycle, ServerIds
from artifactflow_nb.store.forks import check_not_forked


def open_lifecycle(
    *,
    read_only: bool = False,
    model: str | Model | None = None,
    data_dir: str | Path | None = None,
    options: dict[str, Any] | None = None,
    **settings: Any,
) -> RunLifecycle:
    """Open the runs of a data folder.

    Args:
        read_only: Refuse everything that changes the store.
        model: The name of a model at the endpoint, or a model object; None for the configured model.
        data_dir: The folder of the store; None for the configured one.
        options: Further arguments of `Engine`, such as `approvals` and `clock`.
        settings: Settings, by the names of `Settings`.

    Errors: `UsageError` for an invalid setting; `StoreError` for a store or a cassette that cannot be used.
    """
    name, model_object = (model, None) if isinstance(model, str) else (None, model)
    configured = Settings.load(data_dir=data_dir, model=name, **settings)
    check_not_forked(configured.data_dir)
    arguments = {"ids": ServerIds(), **(options or {})}
    thread = RecordingThread(lambda: make_engine(configured, model=model_object, **arguments))
    return RunLifecycle(thread, read_only=read_only)
